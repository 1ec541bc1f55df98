// Which of cuDNN's plans aren't worth a try, by what their engines came to before.
#include "src/graph/cuda/engine_rates.h"

#include "catch.h"

namespace xp::graph::cuda {
namespace {

// 3 x 3 over `side` x `side` pixels with 256 channels: 1.18 MFLOP a pixel.
ConvProblem Problem(ConvKind kind, int64_t side) {
  ConvProblem p;
  p.kind = kind;
  p.n = 4, p.h = p.w = p.p = p.q = side, p.c = p.k = 256, p.r = p.s = 3, p.pad = {1, 1};
  return p;
}

TEST_CASE("an engine that is far off on two problems isn't tried on a third") {
  EngineRates rates;
  const ConvProblem small = Problem(ConvKind::kWeightGrad, 50),
                    middle = Problem(ConvKind::kWeightGrad, 100),
                    large = Problem(ConvKind::kWeightGrad, 200);
  // Pixels, and so work, are 1 : 4 : 16.
  rates.Add(small, "plain:eng0", 30);
  CHECK_FALSE(rates.IsHopeless(large, "plain:eng0", 1));  // one problem says little
  rates.Add(middle, "plain:eng0_k2=1", 100);              // the better rate: 400 ms for the large
  CHECK(rates.IsHopeless(large, "plain:eng0", 1));
  CHECK(rates.IsHopeless(large, "wide-plain:eng0_k2=3", 49));  // whatever its form and knobs
  CHECK_FALSE(rates.IsHopeless(large, "plain:eng0", 51));      // 400 ms isn't eight times as long
  CHECK_FALSE(rates.IsHopeless(large, "plain:eng01", 1));      // another engine
  CHECK_FALSE(rates.IsHopeless(Problem(ConvKind::kForward, 200), "plain:eng0", 1));
  ConvProblem other_type = large;
  other_type.tf32 = true;
  CHECK_FALSE(rates.IsHopeless(other_type, "plain:eng0", 1));
}

TEST_CASE("what is quickly tried is tried, and runs of a launch's length say nothing") {
  EngineRates rates;
  const ConvProblem tiny = Problem(ConvKind::kForward, 2), middle = Problem(ConvKind::kForward, 20),
                    large = Problem(ConvKind::kForward, 200);
  for (int i = 0; i < 3; ++i) rates.Add(tiny, "plain:eng3", 0.01f);
  CHECK_FALSE(rates.IsHopeless(large, "plain:eng3", 0.5f));  // by its rate there 100 ms
  for (int i = 0; i < 3; ++i) rates.Add(middle, "plain:eng4", 10.0f);
  CHECK_FALSE(rates.IsHopeless(middle, "plain:eng4", 0.01f));  // 10 ms: soon done
  CHECK(rates.IsHopeless(large, "plain:eng4", 0.01f));
}

}  // namespace
}  // namespace xp::graph::cuda
