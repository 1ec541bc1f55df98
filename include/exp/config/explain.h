// Says where values came from: what `exp config --explain` prints.
#pragma once

#include <string>

#include "exp/config/load.h"

namespace xp::config {

// The history of the value at `path`, oldest first, and of what lies below it when it is a
// container. A key that was dropped on the way says by what. Throws UsageError with near names for
// a key that never was.
std::string Explain(const Resolved& resolved, const std::string& path);

// The whole tree as YAML, each value with a comment that says where it was set and what it
// replaced.
std::string ExplainAll(const Resolved& resolved);

// What differs between two resolved configs, by path, each side with the file or override that made
// it so.
// "" when nothing differs.
std::string Difference(const Resolved& a, const Resolved& b);

}  // namespace xp::config
