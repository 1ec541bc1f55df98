// What several measurements write into a row in the same way; private to src/bench.
#pragma once

#include <vector>

#include "exp/bench/row.h"
#include "src/bench/power.h"

namespace xp::bench {

// From the seconds a step of each window, by the rule of JudgeWindows: speed, spread and outliers.
void PutWindows(const std::vector<double>& seconds, Row* row);
void PutPower(const PowerSeen& seen, Row* row);
// A loss that isn't finite is told: such numbers are also computed at another speed.
void PutLoss(double loss, Row* row);

}  // namespace xp::bench
