// Rewrites of a whole step (step_passes.h): what they make of a residual network, and that it then
// trains as before.
#include "exp/graph/step_passes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/passes.h"
#include "graph/nn_check.h"
#include "graph/residual_net.h"
#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

int64_t Count(const Graph& g, OpType type) {
  return std::count_if(g.ops().begin(), g.ops().end(),
                       [&](const Op& op) { return op.type == type; });
}

// Largest difference as a share of the largest value.
double Difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 1e-30, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(a[i]));
    most = std::max(most, std::fabs(static_cast<double>(b[i])));
    difference =
        std::max(difference, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return difference / most;
}

}  // namespace

TEST_CASE("gradient sums go into the batch norms that read them", "[passes]") {
  Graph g = ResidualNet({}, DType::kF32);
  const int64_t sums = Count(g, OpType::kAdd), grads = Count(g, OpType::kBatchNormGrad);
  REQUIRE(sums == 3);  // the outputs of two blocks, and the first one's input, a batch norm's too
  RunStepPasses(g, {.sums = true});
  CHECK(Count(g, OpType::kAdd) == 0);
  CHECK(Count(g, OpType::kNormGradSums) == 3);
  CHECK(Count(g, OpType::kNormGradApply) == 3);
  CHECK(Count(g, OpType::kBatchNormGrad) == grads - 3);
  CHECK(g.ops()[g.update_begin()].type == OpType::kSgd);
}

TEST_CASE("the batch norms of a block with a downsampling branch are joined", "[passes]") {
  Graph g = ResidualNet({}, DType::kF32);
  const int64_t norms = Count(g, OpType::kBatchNorm);
  RunStepPasses(g, {.pairs = true});
  CHECK(Count(g, OpType::kNormJoin) == 2);
  CHECK(Count(g, OpType::kBatchNorm) == norms);  // four of them make statistics only
  CHECK(Count(g, OpType::kNormGradSums) == 2);
  CHECK(Count(g, OpType::kNormGradApply) == 4);
  RunStepPasses(g, {.sums = true});
  CHECK(Count(g, OpType::kNormGradSums) == 4);
  CHECK(Count(g, OpType::kAdd) == 0);
}

TEST_CASE("widening convolutions get Gram statistics", "[passes]") {
  Graph g = ResidualNet({}, DType::kF32);
  const int64_t norms = Count(g, OpType::kBatchNorm);
  const int64_t convolutions = Count(g, OpType::kConv2d), wgrads = Count(g, OpType::kConv2dWgrad);
  RunStepPasses(g, {.gram = true, .gram_bytes = 0});
  // The last convolution of each block, and the first block's downsampling branch.
  CHECK(Count(g, OpType::kGramStatistics) == 4);
  CHECK(Count(g, OpType::kGramGrad) == 4);
  CHECK(Count(g, OpType::kBatchNorm) == norms - 4);
  CHECK(Count(g, OpType::kConv2d) == convolutions + 4);
  CHECK(Count(g, OpType::kConv2dWgrad) == wgrads - 4);
  CHECK(g.ops()[g.update_begin()].type == OpType::kSgd);

  Graph all = ResidualNet({}, DType::kF32);
  RunStepPasses(all, {.sums = true, .pairs = true, .gram = true, .gram_bytes = 0});
  CHECK(Count(all, OpType::kGramStatistics) == 4);
  CHECK(Count(all, OpType::kAdd) == 0);
  CHECK(Count(all, OpType::kNormJoin) == 3);
  // y of a widening convolution is read by what applies the norm, and by nobody else.
  for (const Op& op : all.ops()) {
    if (op.type != OpType::kNormGradApply) continue;
    const std::string& name = all.tensor(op.inputs[1]).name;
    CHECK(name.find(".3.conv") == std::string::npos);
  }

  Graph none = ResidualNet({}, DType::kF32);
  RunStepPasses(none, {.gram = true});
  CHECK(Count(none, OpType::kGramStatistics) == 0);

  Graph wide = ResidualNet({.width = 512}, DType::kF32);  // where a^T a costs more than it spares
  RunStepPasses(wide, {.gram = true, .gram_bytes = 0});
  CHECK(Count(wide, OpType::kGramStatistics) == 0);
}

TEST_CASE("Gram statistics train as the ones they replace, over 200 steps on the CPU", "[passes]") {
  Backend& cpu = *TestBackends()[0];
  const Trained plain = TrainResidualNet(cpu, DType::kF32, {}, 200);
  CHECK(plain.losses.back() < 0.2f * plain.losses.front());
  for (const bool all : {false, true}) {
    const StepPasses passes{.sums = all, .pairs = all, .gram = true, .gram_bytes = 0};
    INFO(StepPassesText(passes));
    const Trained gram = TrainResidualNet(cpu, DType::kF32, passes, 200);
    CHECK(Difference(gram.losses, plain.losses) < 1e-4);
    CHECK(Difference(gram.params, plain.params) < 1e-3);
    CHECK(Difference(gram.states, plain.states) < 1e-3);
  }
}

TEST_CASE("Gram statistics train alike on the GPU, twice the same bits", "[passes]") {
  for (Backend* backend : TestBackends()) {
    if (!backend->is_cuda()) continue;
    for (DType type : {DType::kF32, DType::kBF16}) {
      INFO(DTypeName(type));
      const StepPasses passes{.sums = true, .pairs = true, .gram = true, .gram_bytes = 0};
      const Trained plain = TrainResidualNet(*backend, type, {}, 20);
      const Trained gram = TrainResidualNet(*backend, type, passes, 20);
      const Trained again = TrainResidualNet(*backend, type, passes, 20);
      CHECK(gram.params == again.params);
      CHECK(gram.states == again.states);
      const double tolerance = type == DType::kF32 ? 1e-3 : 0.1;
      CHECK(Difference(gram.losses, plain.losses) < tolerance);
      CHECK(Difference(gram.states, plain.states) < tolerance);
    }
  }
}

TEST_CASE("the stem's batch norm and max pool are one pass", "[passes]") {
  const ResidualNetOptions with_pool{.size = 21, .pool = true};
  Graph g = ResidualNet(with_pool, DType::kF32);
  RunStepPasses(g, {.sums = true, .pairs = true, .pool = true, .gram = true, .gram_bytes = 0});
  CHECK(Count(g, OpType::kMaxPool) == 0);
  CHECK(Count(g, OpType::kMaxPoolGrad) == 0);
  CHECK(Count(g, OpType::kNormPool) == 1);
  CHECK(Count(g, OpType::kNormPoolSums) == 1);
  CHECK(Count(g, OpType::kNormPoolGrad) == 1);
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      if (!backend->is_cuda() && type != DType::kF32) continue;
      INFO(backend->name() << " " << DTypeName(type));
      const Trained plain = TrainResidualNet(*backend, type, {}, 10, with_pool);
      const Trained pool = TrainResidualNet(*backend, type, {.pool = true}, 10, with_pool);
      const double tolerance = type == DType::kF32 ? 1e-4 : 0.05;
      CHECK(pool.losses[0] == plain.losses[0]);  // forward the same bits
      CHECK(Difference(pool.losses, plain.losses) < tolerance);
      CHECK(Difference(pool.states, plain.states) < tolerance);
      if (!backend->is_cuda()) continue;
      CHECK(TrainResidualNet(*backend, type, {.pool = true}, 10, with_pool).params == pool.params);
    }
  }
}

TEST_CASE("squeeze-and-excitation is folded into the batch norm before it", "[passes]") {
  const ResidualNetOptions squeeze{.squeeze = true};
  const StepPasses all{.sums = true, .pairs = true, .squeeze = true};
  Graph g = ResidualNet(squeeze, DType::kF32);
  RunStepPasses(g, all);
  CHECK(Count(g, OpType::kSqueezeStatistics) == 3);
  CHECK(Count(g, OpType::kSqueezeApply) == 3);
  CHECK(Count(g, OpType::kScaleChannels) == 0);
  CHECK(Count(g, OpType::kScaleChannelsGrad) == 0);
  CHECK(Count(g, OpType::kAdd) == 0);
  CHECK(Count(g, OpType::kGlobalAvgPool) == 1);  // the network's own
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      if (!backend->is_cuda() && type != DType::kF32) continue;
      INFO(backend->name() << " " << DTypeName(type));
      const int steps = backend->is_cuda() ? 20 : 100;
      const Trained plain = TrainResidualNet(*backend, type, {}, steps, squeeze);
      const Trained fused = TrainResidualNet(*backend, type, all, steps, squeeze);
      const double tolerance = type == DType::kF32 ? 1e-3 : 0.1;
      CHECK(Difference(fused.losses, plain.losses) < tolerance);
      CHECK(Difference(fused.params, plain.params) < tolerance);
      CHECK(Difference(fused.states, plain.states) < tolerance);
      if (!backend->is_cuda()) continue;
      CHECK(TrainResidualNet(*backend, type, all, steps, squeeze).params == fused.params);
    }
  }
}

TEST_CASE("data gradients of 1x1 convolutions are joined with what else flows in", "[passes]") {
  const StepPasses before{.sums = true, .pairs = true, .gram = true, .gram_bytes = 0};
  Graph g = ResidualNet({}, DType::kF32);
  RunStepPasses(g, before);
  const int64_t dgrads = Count(g, OpType::kConv2dDgrad);
  Graph none = g;
  RunStepPasses(none, {.dgrad = true});  // fp32, and too few channels: nothing the kernel does
  CHECK(Count(none, OpType::kDgradJoin) == 0);
  JoinDgrads(g, {.all = true});
  // The outputs of the first two blocks flow into a 1x1 convolution and on.
  CHECK(Count(g, OpType::kDgradJoin) == 2);
  CHECK(Count(g, OpType::kConv2dDgrad) == dgrads - 2);
  Backend& cpu = *TestBackends()[0];
  const Trained plain = TrainResidualNet(cpu, DType::kF32, before, 50);
  const Trained joined = TrainResidualNet(cpu, DType::kF32, before, 50, {.join_dgrads = true});
  CHECK(Difference(joined.losses, plain.losses) < 1e-5);
  CHECK(Difference(joined.params, plain.params) < 1e-4);
  for (Backend* backend : TestBackends()) {
    if (!backend->is_cuda()) continue;
    const ResidualNetOptions wide{.width = 64};
    const auto check = [&](Backend& on, DType type, bool StepPasses::*pass, double tolerance) {
      INFO(DTypeName(type));
      StepPasses with = before;
      with.*pass = true;
      Graph fits = ResidualNet(wide, type);
      RunStepPasses(fits, with);
      CHECK(Count(fits, OpType::kDgradJoin) == 2);
      const Trained a = TrainResidualNet(on, type, before, 20, wide);
      const Trained b = TrainResidualNet(on, type, with, 20, wide);
      CHECK(TrainResidualNet(on, type, with, 20, wide).params == b.params);
      CHECK(Difference(b.losses, a.losses) < tolerance);
      CHECK(Difference(b.states, a.states) < tolerance);
    };
    check(*backend, DType::kBF16, &StepPasses::dgrad, 0.1);
    const auto tf32 = CreateCudaBackend({.tf32 = true, .engines_tried = 1});
    check(*tf32, DType::kF32, &StepPasses::dgrad_tf32, 0.01);
  }
}

TEST_CASE("data gradients of stride 2 are made for the pixels that they reach", "[passes]") {
  const StepPasses before{.sums = true, .pairs = true};
  StepPasses with = before;
  with.strided = true;
  for (int size : {12, 13}) {
    const ResidualNetOptions options{.size = size};
    Graph g = ResidualNet(options, DType::kF32);
    RunStepPasses(g, with);
    int halves = 0;
    for (const Op& op : g.ops()) {
      if (op.type == OpType::kNormGradSums) halves += LastIsHalf(g, op, kSumsDy, kSumsMostDys);
      if (op.type != OpType::kConv2dDgrad || g.tensor(op.inputs[1]).shape[1] != 1) continue;
      CHECK(std::get<ConvAttrs>(op.attrs).stride == std::array{1, 1});
    }
    CHECK(halves == 1);  // the shortcut of the third block
    Graph none = ResidualNet(options, DType::kF32);
    RunStepPasses(none, {.strided = true});  // nothing that would add it up
    for (const Op& op : none.ops()) CHECK(op.type != OpType::kNormGradSums);
    for (Backend* backend : TestBackends()) {
      INFO(backend->name() << " size " << size);
      const Trained plain = TrainResidualNet(*backend, DType::kF32, before, 30, options);
      const Trained half = TrainResidualNet(*backend, DType::kF32, with, 30, options);
      CHECK(Difference(half.losses, plain.losses) < 1e-4);
      CHECK(Difference(half.params, plain.params) < 1e-3);
      CHECK(TrainResidualNet(*backend, DType::kF32, with, 30, options).params == half.params);
      if (!backend->is_cuda()) continue;
      StepPasses joined = with;
      joined.gram = joined.dgrad = true;
      joined.gram_bytes = 0;
      const ResidualNetOptions wide{.size = size, .width = 64};
      Graph join = ResidualNet(wide, DType::kBF16);
      RunStepPasses(join, joined);
      CHECK(std::any_of(join.ops().begin(), join.ops().end(), [&](const Op& op) {
        return op.type == OpType::kDgradJoin && LastIsHalf(join, op, kJoinMore, kJoinMostMore);
      }));
      const Trained a = TrainResidualNet(*backend, DType::kBF16, joined, 20, wide);
      joined.strided = false;
      const Trained b = TrainResidualNet(*backend, DType::kBF16, joined, 20, wide);
      CHECK(Difference(b.losses, a.losses) < 0.1);
      CHECK(Difference(b.states, a.states) < 0.1);
    }
  }
}

TEST_CASE("operations that wait change no bit", "[passes]") {
  for (bool squeeze : {false, true}) {
    Graph g = ResidualNet({.squeeze = squeeze}, DType::kF32), same = g;
    DelayWideOps(g);
    REQUIRE(g.ops().size() == same.ops().size());
    CHECK(g.update_begin() == same.update_begin());
    auto differ = [](const Op& a, const Op& b) { return a.name != b.name; };
    CHECK(!std::equal(g.ops().begin(), g.ops().end(), same.ops().begin(), std::not_fn(differ)));
    std::vector<bool> made(g.tensors().size());
    for (const Op& op : g.ops()) {
      for (TensorId id : op.inputs) {
        if (id == kNoTensor || g.tensor(id).storage != Storage::kTemp) continue;
        if (!made[static_cast<size_t>(id)]) FAIL(op.name << " reads what isn't made yet");
      }
      for (TensorId id : op.outputs) {
        if (id != kNoTensor) made[static_cast<size_t>(id)] = true;
      }
    }
    Backend& cpu = *TestBackends()[0];
    const Trained plain = TrainResidualNet(cpu, DType::kF32, {}, 2, {.squeeze = squeeze});
    const Trained moved =
        TrainResidualNet(cpu, DType::kF32, {}, 2, {.squeeze = squeeze, .delay = true});
    CHECK(moved.params == plain.params);
    CHECK(moved.states == plain.states);
  }
}

TEST_CASE("results in their inputs' place change no bit", "[passes]") {
  for (Backend* backend : TestBackends()) {
    for (bool squeeze : {false, true}) {
      for (DType type : {DType::kF32, DType::kBF16}) {
        // The CPU rewrites nothing and puts nothing in place.
        if (!backend->is_cuda() && (type != DType::kF32 || squeeze)) continue;
        INFO(backend->name() << " " << DTypeName(type) << " squeeze " << squeeze);
        const ResidualNetOptions options{.pool = true, .squeeze = squeeze};
        ResidualNetOptions in_place = options;
        in_place.as_asked = true;
        const Trained apart = TrainResidualNet(*backend, type, backend->step_passes(), 3, options);
        const Trained together = TrainResidualNet(*backend, type, {}, 3, in_place);
        CHECK(together.losses == apart.losses);
        CHECK(together.params == apart.params);
        CHECK(together.states == apart.states);
      }
    }
  }
}

TEST_CASE("no pass, no change", "[passes]") {
  Graph g = ResidualNet({}, DType::kF32), same = g;
  RunStepPasses(g, {});
  REQUIRE(g.ops().size() == same.ops().size());
  for (size_t i = 0; i < g.ops().size(); ++i) CHECK(g.ops()[i].type == same.ops()[i].type);
}

TEST_CASE("joined batch norms train as the ones they replace, on the CPU", "[passes]") {
  Backend& cpu = *TestBackends()[0];
  const Trained plain = TrainResidualNet(cpu, DType::kF32, {}, 30);
  // A sum is made in the same order wherever it is made.
  for (const StepPasses& passes :
       {StepPasses{.sums = true}, StepPasses{.sums = true, .pairs = true}}) {
    INFO(StepPassesText(passes));
    const Trained fused = TrainResidualNet(cpu, DType::kF32, passes, 30);
    CHECK(Difference(fused.losses, plain.losses) < 1e-5);
    CHECK(Difference(fused.params, plain.params) < 1e-4);
    CHECK(Difference(fused.states, plain.states) < 1e-4);
  }
}

TEST_CASE("a sum made by a batch norm has the same bits on the GPU", "[passes]") {
  for (Backend* backend : TestBackends()) {
    if (!backend->is_cuda()) continue;
    for (DType type : TestTypes(*backend)) {
      INFO(DTypeName(type));
      const Trained plain = TrainResidualNet(*backend, type, {}, 5);
      const Trained fused = TrainResidualNet(*backend, type, {.sums = true}, 5);
      CHECK(fused.losses == plain.losses);
      CHECK(fused.params == plain.params);
      CHECK(fused.states == plain.states);
      const Trained pairs = TrainResidualNet(*backend, type, {.sums = true, .pairs = true}, 5);
      const Trained again = TrainResidualNet(*backend, type, {.sums = true, .pairs = true}, 5);
      CHECK(pairs.params == again.params);
      const double tolerance = type == DType::kF32 ? 1e-4 : 0.05;
      CHECK(Difference(pairs.losses, plain.losses) < tolerance);
      CHECK(Difference(pairs.states, plain.states) < tolerance);
    }
  }
}

TEST_CASE("EXP_FUSION_OFF takes passes away", "[passes]") {
  const StepPasses all{
      .sums = true, .pairs = true, .pool = true, .squeeze = true, .gram = true, .strided = true};
  unsetenv("EXP_FUSION_OFF");
  CHECK(StepPassesText(AllowedStepPasses(all)) == "sums,pairs,pool,squeeze,strided,gram");
  setenv("EXP_FUSION_OFF", "gram,sums,pool,squeeze,strided", 1);
  CHECK(StepPassesText(AllowedStepPasses(all)) == "pairs");
  setenv("EXP_FUSION_OFF", "all", 1);
  CHECK(StepPassesText(AllowedStepPasses(all)) == "none");
  setenv("EXP_FUSION_OFF", "pairs,sumz", 1);
  for (const char* text : {"none", "gram", "sums,pool", "sums,pairs,pool,gram"}) {
    CHECK(StepPassesText(RecordedStepPasses(all, text)) == text);
  }
  CHECK_THROWS_AS(RecordedStepPasses(all, "sums,folding"), xp::Error);
  CHECK_THROWS_AS(AllowedStepPasses(all), xp::Error);
  unsetenv("EXP_FUSION_OFF");
}

}  // namespace xp::graph
