// JSON text into a Node, with line and column.
#pragma once

#include <string>
#include <string_view>

#include "exp/config/node.h"

namespace xp::config {

// Throws UsageError with name:line:column on malformed text, duplicate keys, or more than 100
// levels. `{"!Tag": v}` becomes v with the tag.
Node ParseJson(std::string_view text, const std::string& name);

}  // namespace xp::config
