// JSON text into a Node, with line and column.
#pragma once

#include <string>
#include <string_view>

#include "exp/config/node.h"
#include "src/config/places.h"

namespace xp::config {

// Throws UsageError with name:line:column on malformed text, duplicate keys, or more than 100
// levels. `{"!Tag": v}` becomes v with the tag. `places` tells where the text's places were.
Node ParseJson(std::string_view text, const std::string& name, const Places& places = {});

}  // namespace xp::config
