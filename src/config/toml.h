// TOML text into a Node, with line and column.
#pragma once

#include <string>
#include <string_view>

#include "exp/config/node.h"
#include "src/config/places.h"

namespace xp::config {

// Dates and times become strings as they are written. Throws UsageError with name:line:column.
// `places` tells where the text's places were.
Node ParseToml(std::string_view text, const std::string& name, const Places& places = {});

}  // namespace xp::config
