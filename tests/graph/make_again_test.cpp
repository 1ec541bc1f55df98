// Activation checkpointing: blocks whose inside is made again for the gradients.
#include <algorithm>
#include <cmath>

#include "catch.h"
#include "graph/residual_net.h"

namespace xp::graph {
namespace {

double MostDifference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

}  // namespace

TEST_CASE("blocks made again train to the same bits", "[passes]") {
  for (Backend* backend : TestBackends()) {
    for (bool squeeze : {false, true}) {
      for (DType type : {DType::kF32, DType::kBF16}) {
        INFO(backend->name() << " " << DTypeName(type) << " squeeze " << squeeze);
        const Trained kept = TrainResidualNet(*backend, type, {}, 3, {.squeeze = squeeze});
        const Trained again =
            TrainResidualNet(*backend, type, {}, 3, {.squeeze = squeeze, .make_again = true});
        CHECK(again.losses[0] == kept.losses[0]);
        if (!backend->is_cuda()) {
          CHECK(again.losses == kept.losses);
          CHECK(again.params == kept.params);
          CHECK(again.states == kept.states);
        } else {
          // There a norm with given statistics may round otherwise than one that makes them.
          CHECK(MostDifference(again.params, kept.params) < (type == DType::kF32 ? 1e-4 : 3e-2));
          CHECK(MostDifference(again.states, kept.states) < (type == DType::kF32 ? 1e-4 : 3e-2));
        }
      }
    }
  }
}

}  // namespace xp::graph
