#include "graph/detection_support.h"

#include "catch.h"

namespace xp::graph {

void CheckGradient(const OpCase& c, size_t input, size_t gradient, int probes, double scale) {
  Backend& cpu = *TestBackends()[0];
  std::vector<double> grad = RunCase(cpu, DType::kF32, c)[gradient];
  std::vector<size_t> order(grad.size());  // those with a gradient first: most have none
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return (grad[a] != 0) > (grad[b] != 0); });
  for (int p = 0; p < probes; ++p) {
    // Half the probes among the first elements of that order, half spread over all.
    size_t rank = p % 2 == 0 ? static_cast<size_t>(p)
                             : order.size() * static_cast<size_t>(p) / static_cast<size_t>(probes);
    size_t i = order[std::min(rank, order.size() - 1)];
    double sum[2];
    const double step = 1.0 / 256;
    for (int side = 0; side < 2; ++side) {
      OpCase moved = c;
      moved.inputs[input].values[i] += side == 0 ? -step : step;
      CaseResult r = RunCase(cpu, DType::kF32, moved, 1);
      sum[side] = r[0][0] + r[0][1];
    }
    INFO("input " << input << ", element " << i);
    CHECK(grad[i] / scale == Approx((sum[1] - sum[0]) / (2 * step)).epsilon(0.02).margin(3e-4));
  }
}

}  // namespace xp::graph
