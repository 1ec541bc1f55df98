// `${a.b}` in strings: replaced by the value of that key, after all merges and overrides.
#pragma once

#include <string>

#include "exp/config/node.h"

namespace xp::config {

// A string that is one `${key}` takes the key's value with its type; inside longer text the value
// is written as text. `${.x}` is a sibling, `${..x}` one level up. `${env:NAME}` and
// `${env:NAME,default}` read the environment, the default as YAML would type it. `\${` stands for a
// literal `${`. Throws UsageError for unknown keys, cycles (all steps named), and results of more
// than ten million values.
void Interpolate(Node& root);

}  // namespace xp::config
