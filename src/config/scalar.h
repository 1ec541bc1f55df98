// What a plain (unquoted) scalar means: YAML 1.2's core schema, plus numbers that people write.
#pragma once

#include <string>
#include <string_view>

#include "exp/config/node.h"

namespace xp::config {

enum class ScalarStyle {
  kFile,      // a YAML file: null and booleans as in the core schema
  kOverride,  // --set: also None, nan, inf, infinity
};

// The value of plain scalar text. `1e-3` is a float (YAML 1.1 loaders make it a string: yacs#46),
// `yes`, `on` and `1:30` are strings, `010` is 10 with a warning in *warning. Throws UsageError for
// an int beyond 64 bits.
Node ResolveScalar(std::string_view text, ScalarStyle style, std::string* warning);

// Whether a string written without quotes would be read as something else or not at all.
bool NeedsQuotes(std::string_view text);

}  // namespace xp::config
