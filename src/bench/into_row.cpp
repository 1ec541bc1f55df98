#include "src/bench/into_row.h"

#include <fmt/format.h>

#include <cmath>

#include "exp/bench/throughput.h"

namespace xp::bench {

void PutWindows(const std::vector<double>& seconds, Row* row) {
  Windows windows = JudgeWindows(seconds);
  row->milliseconds = windows.median * 1e3;
  row->images_per_second = row->c.batch / windows.median;
  row->fastest = windows.kept.front() * 1e3;
  row->slowest = windows.kept.back() * 1e3;
  row->spread = (row->slowest - row->fastest) / row->milliseconds;
  row->repeats = static_cast<int>(windows.kept.size());
  row->outliers = windows.outliers;
}

void PutPower(const PowerSeen& seen, Row* row) {
  row->watts = seen.watts;
  row->celsius = seen.celsius;
  row->sm_mhz = seen.sm_mhz;
  row->throttled = seen.throttled;
}

void PutLoss(double loss, Row* row) {
  row->loss = loss;
  if (std::isfinite(loss)) return;
  if (!row->reason.empty()) row->reason += "; ";
  row->reason += fmt::format("the loss is {}: no training goes on like this", loss);
}

}  // namespace xp::bench
