// Activation checkpointing of a ResNet's blocks (ResNetOptions::checkpoint_blocks): memory, and
// what is made when.
#include "catch.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/builder.h"
#include "exp/graph/memory_plan.h"
#include "exp/graph/passes.h"
#include "exp/models/resnet.h"
#include "src/graph/step_edit.h"

namespace xp::models {
namespace {

using namespace graph;

size_t ArenaBytes(const Graph& g) {
  return PlanMemory(g, std::vector<size_t>(g.ops().size(), 0)).arena_bytes;
}

// ResNet-50 for training; its last map is the loss.
Graph ResNet50(NormMode norm, bool checkpoint_blocks) {
  Graph g(std::make_shared<ParamLayout>(), DType::kF32);
  ResNetOptions options;
  options.norm = norm;
  options.checkpoint_blocks = checkpoint_blocks;
  TensorId image = g.AddInput("image", {8, 64, 64, 3}, DType::kF32);
  TensorId top = ResNet(g, image, "", options, true).back();
  g.SeedGradient(top, g.AddInput("d top", g.tensor(top).shape, DType::kF32));
  RunPasses(g, {});
  AppendBackward(g);
  return g;
}

}  // namespace

TEST_CASE("blocks made again take less than half the memory of a ResNet-50", "[passes]") {
  for (NormMode norm : {NormMode::kTrain, NormMode::kEval, NormMode::kFrozen}) {
    // Frozen norms need no inputs for their gradients: less is kept without, too.
    const double most = norm == NormMode::kFrozen ? 0.7 : 0.5;
    const Graph kept = ResNet50(norm, false), again = ResNet50(norm, true);
    CHECK(kept.fusible());
    CHECK(!again.fusible());
    CHECK(again.ops().size() > kept.ops().size());
    CHECK(static_cast<double>(ArenaBytes(again)) < most * static_cast<double>(ArenaBytes(kept)));
    // Each value is made before it is read, and running statistics are updated once.
    std::vector<bool> made(again.tensors().size());
    size_t norms = 0;
    for (const Op& op : again.ops()) {
      norms += op.type == OpType::kBatchNorm ? 1 : 0;
      for (TensorId id : op.inputs) {
        if (id == kNoTensor || again.tensor(id).storage != Storage::kTemp) continue;
        if (!made[static_cast<size_t>(id)]) FAIL(op.name << " reads what isn't made yet");
      }
      for (TensorId id : op.outputs) {
        if (id != kNoTensor) made[static_cast<size_t>(id)] = true;
      }
    }
    CHECK(norms == (norm == NormMode::kTrain ? 53 : 0));
  }
}

TEST_CASE("normalised images are made again for the first layer's gradient", "[passes]") {
  for (bool frozen : {false, true}) {
    Graph g(std::make_shared<ParamLayout>(), DType::kF32);
    const TensorId images = g.AddInput("images", {8, 64, 64, 3}, DType::kU8);
    const TensorId sizes = g.AddInput("sizes", {8, 2}, DType::kI32);
    ResNetOptions options;
    options.frozen_stages = frozen ? 1 : 0;
    TensorId top = ResNet(g, ImageNormalize(g, images, sizes, {}), "", options, true).back();
    g.SeedGradient(top, g.AddInput("d top", g.tensor(top).shape, DType::kF32));
    RunPasses(g, {});
    AppendBackward(g);
    g.BeginUpdate();
    const size_t ops = g.ops().size(), bytes = ArenaBytes(g);
    MakeImagesAgain(g);
    CHECK(g.ops().size() == ops + (frozen ? 0 : 1));
    CHECK(g.update_begin() == g.ops().size());
    // 8 x 64 x 64 x 3 floats.
    CHECK(bytes - ArenaBytes(g) == (frozen ? 0 : 393216));
    MakeImagesAgain(g);
    CHECK(g.ops().size() == ops + (frozen ? 0 : 1));
  }
}

TEST_CASE("what isn't trained isn't made again", "[passes]") {
  Graph g(std::make_shared<ParamLayout>(), DType::kF32);
  ResNetOptions options;
  options.norm = NormMode::kFrozen;
  options.checkpoint_blocks = true;
  options.frozen_stages = 5;
  ResNet(g, g.AddInput("image", {1, 64, 64, 3}, DType::kF32), "", options, true);
  RunPasses(g, {});
  const size_t forward = g.ops().size();
  AppendBackward(g);
  CHECK(g.ops().size() == forward);
}

}  // namespace xp::models
