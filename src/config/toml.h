// TOML text into a Node, with line and column.
#pragma once

#include <string>
#include <string_view>

#include "exp/config/node.h"

namespace xp::config {

// Dates and times become strings as they are written. Throws UsageError with name:line:column.
Node ParseToml(std::string_view text, const std::string& name);

}  // namespace xp::config
