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

// The tag of a string that holds the digits of an int from 2^63 to 2^64 - 1, such as a seed. It is
// written without quotes, as the number that it is.
inline constexpr std::string_view kBigInt = "!!int";

// The value of plain scalar text. `1e-3` is a float (YAML 1.1 loaders make it a string: yacs#46),
// `yes`, `on` and `1:30` are strings, `010` is 10 with a warning in *warning. Throws UsageError for
// an int below -2^63 or above 2^64 - 1.
Node ResolveScalar(std::string_view text, ScalarStyle style, std::string* warning);

// Whether a string written without quotes would be read as something else or not at all.
bool NeedsQuotes(std::string_view text);

}  // namespace xp::config
