// Values that were built from a key that has another value now.
#pragma once

#include <vector>

#include "exp/config/load.h"
#include "exp/config/node.h"

namespace xp::config {

// A notice ("stale-value") for each key that was changed, in another file or by an override, after
// values had been built from it by a Python expression or a {{_base_.key}} placeholder; it lists
// those values (mmdetection#2957). Interpolated values follow by themselves and are never stale.
std::vector<Notice> StaleValues(const Node& root);

}  // namespace xp::config
