#include <cmath>
#include <random>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/base/philox.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/backend.h"
#include "exp/graph/builder.h"
#include "exp/graph/memory_plan.h"
#include "exp/graph/passes.h"
#include "exp/graph/program.h"
#include "src/graph/half.h"

using namespace xp::graph;

namespace {

Graph NewGraph() { return Graph(std::make_shared<ParamLayout>()); }

// conv - bn - relu - conv - bn, plus the input, relu: a basic block.
TensorId Block(Graph& g, TensorId x) {
  TensorId y = Conv2d(g, x, "conv1", {.out_channels = 8, .kernel = 3, .pad = 1});
  y = Relu(g, BatchNorm(g, y, "bn1", {}), "relu1");
  y = Conv2d(g, y, "conv2", {.out_channels = 8, .kernel = 3, .pad = 1});
  y = Add(g, {BatchNorm(g, y, "bn2", {}), x}, "add");
  return Relu(g, y, "relu2");
}

std::vector<OpType> Types(const Graph& g) {
  std::vector<OpType> types;
  for (const Op& op : g.ops()) types.push_back(op.type);
  return types;
}

}  // namespace

TEST_CASE("norm, add and relu are fused into one op, and the pass can be switched off") {
  Graph g = NewGraph();
  TensorId x = g.AddInput("x", {1, 4, 4, 8}, DType::kF32);
  TensorId y = Block(g, x);
  RunPasses(g, {});
  CHECK(Types(g) ==
        std::vector{OpType::kConv2d, OpType::kBatchNorm, OpType::kConv2d, OpType::kBatchNorm});
  CHECK(g.ops()[3].inputs[5] == x);
  CHECK(g.ops()[3].outputs[0] == y);
  CHECK(std::get<NormAttrs>(g.ops()[3].attrs).relu);

  Graph plain = NewGraph();
  Block(plain, plain.AddInput("x", {1, 4, 4, 8}, DType::kF32));
  RunPasses(plain, {.fuse_norm = false, .fuse_conv = false});
  CHECK(plain.ops().size() == 7);
}

TEST_CASE("a window that a map has no place for is refused, one that may be cut isn't") {
  Graph g = NewGraph();
  auto refused = [&](auto build) {
    try {
      build();
    } catch (const xp::Error& e) {
      return e.kind() == xp::ErrorKind::kUsage &&
             e.text().what.find("too small for this network") != std::string::npos;
    }
    return false;
  };
  TensorId x = g.AddInput("x", {1, 2, 5, 8}, DType::kF32);
  // (2 - 3) / 2 + 1 is 1 in whole numbers: it would read behind the map.
  CHECK(refused([&] { Conv2d(g, x, "c", {.out_channels = 8, .kernel = 3, .stride = 2}); }));
  CHECK(refused([&] { Conv2d(g, x, "d", {.out_channels = 8, .kernel = 2, .dilation = 2}); }));
  CHECK(refused([&] { MaxPool(g, x, {.kernel = 3, .stride = 2}, "p"); }));
  TensorId y = MaxPool(g, x, {.kernel = 3, .stride = 2, .ceil = true}, "q");
  CHECK(g.tensor(y).shape == Shape{1, 1, 2, 8});
  y = Conv2d(g, x, "e", {.out_channels = 8, .kernel = 3, .stride = 2, .pad = 1});
  CHECK(g.tensor(y).shape == Shape{1, 1, 3, 8});
}

TEST_CASE("every trained parameter gets one gradient view at its own offset") {
  Graph g = NewGraph();
  TensorId x = g.AddInput("x", {1, 4, 4, 8}, DType::kF32);
  TensorId y = Block(g, Block(g, x));  // shares its parameters: two contributions each
  RunPasses(g, {});
  TensorId dy = g.AddInput("dy", g.tensor(y).shape, DType::kF32);
  g.SeedGradient(y, dy);
  AppendBackward(g);
  int found = 0;
  for (const Param& p : g.layout().params()) {
    TensorId id = g.Find(p.name, Storage::kGrad);
    REQUIRE(id != kNoTensor);
    CHECK(g.tensor(id).offset == p.offset);
    CHECK(g.tensor(id).shape == p.shape);
    ++found;
  }
  CHECK(found == 6);
}

TEST_CASE("frozen parameters get no gradient and stop the walk") {
  Graph g = NewGraph();
  TensorId x = g.AddInput("x", {1, 4, 4, 8}, DType::kF32);
  TensorId y = Conv2d(g, x, "stem", {.out_channels = 8, .trainable = false});
  y = Relu(g, BatchNorm(g, y, "bn", {.mode = NormMode::kFrozen}), "relu");
  y = Conv2d(g, y, "head", {.out_channels = 2});
  RunPasses(g, {});
  g.SeedGradient(y, g.AddInput("dy", g.tensor(y).shape, DType::kF32));
  AppendBackward(g);
  CHECK(Types(g) ==
        std::vector{OpType::kConv2d, OpType::kAffine, OpType::kConv2d, OpType::kConv2dWgrad});
}

TEST_CASE("tensors that are alive together never share bytes") {
  Graph g = NewGraph();
  std::mt19937 random(7);
  std::vector<TensorId> made{g.AddInput("x", {64}, DType::kF32)};
  std::vector<size_t> workspace;
  for (int i = 0; i < 200; ++i) {
    TensorId a = made[random() % made.size()], b = made[random() % made.size()];
    TensorId y = g.AddTemp("t", {static_cast<int64_t>(1 + random() % 5000)});
    g.AddOp(OpType::kAdd, {a, b}, {y}, ReluAttrs{}, "add");
    made.push_back(y);
    workspace.push_back(random() % 3 == 0 ? random() % 10000 : 0);
  }
  MemoryPlan plan = PlanMemory(g, workspace);
  struct Live {
    size_t begin, end;
    int64_t first, last;
  };
  std::vector<Live> blocks;
  size_t sum = 0;
  for (size_t t = 1; t < g.tensors().size(); ++t) {
    int64_t first = -1, last = -1;
    for (size_t i = 0; i < g.ops().size(); ++i) {
      for (TensorId id : {g.ops()[i].inputs[0], g.ops()[i].inputs[1], g.ops()[i].outputs[0]}) {
        if (id != static_cast<TensorId>(t)) continue;
        if (first < 0) first = static_cast<int64_t>(i);
        last = static_cast<int64_t>(i);
      }
    }
    size_t bytes = g.tensors()[t].bytes();
    blocks.push_back({plan.offset[t], plan.offset[t] + bytes, first, last});
    sum += bytes;
  }
  for (size_t i = 0; i < g.ops().size(); ++i) {
    if (workspace[i] == 0) continue;
    int64_t at = static_cast<int64_t>(i);
    blocks.push_back({plan.workspace[i], plan.workspace[i] + workspace[i], at, at});
  }
  for (size_t a = 0; a < blocks.size(); ++a) {
    CHECK(blocks[a].end <= plan.arena_bytes);
    for (size_t b = 0; b < a; ++b) {
      bool together = blocks[a].first <= blocks[b].last && blocks[b].first <= blocks[a].last;
      bool overlap = blocks[a].begin < blocks[b].end && blocks[b].begin < blocks[a].end;
      if (together && overlap) FAIL("blocks " << a << " and " << b << " overlap");
    }
  }
  CHECK(plan.arena_bytes < sum);
}

TEST_CASE("an output takes the place of an input that nobody reads any more") {
  Graph g = NewGraph();
  auto temp = [&](int64_t n) { return g.AddTemp("t", {n}); };
  const TensorId x = g.AddInput("x", {1000}, DType::kF32);
  const TensorId a = temp(1000), b = temp(1000), c = temp(1000), d = temp(1000), e = temp(1000);
  const TensorId half = temp(500);
  g.AddOp(OpType::kRelu, {x}, {a}, NoAttrs{}, "not over an input of the graph");
  g.AddOp(OpType::kRelu, {a}, {b}, NoAttrs{}, "a is read again");
  g.AddOp(OpType::kAdd, {b, a}, {c}, ReluAttrs{}, "over b");
  g.AddOp(OpType::kReluGrad, {a, c}, {d}, NoAttrs{}, "over a");
  g.AddOp(OpType::kRelu, {d}, {half}, NoAttrs{}, "not as large");
  g.AddOp(OpType::kAdd, {half, half}, {e}, ReluAttrs{}, "not as large either");
  const auto offset = [&](const MemoryPlan& plan, TensorId id) {
    return plan.offset[static_cast<size_t>(id)];
  };
  const MemoryPlan plan = PlanMemory(g, std::vector<size_t>(6, 0), GpuInPlace(g));
  CHECK(offset(plan, b) != offset(plan, a));
  CHECK(offset(plan, c) == offset(plan, b));
  CHECK(offset(plan, d) == offset(plan, a));
  CHECK(offset(plan, half) != offset(plan, d));
  CHECK(plan.arena_bytes == 8192);  // two of 4000, each in 4096
  CHECK(PlanMemory(g, std::vector<size_t>(6, 0)).arena_bytes == 3 * 4096);
}

TEST_CASE("output sizes are torch's") {
  CHECK(ConvOutputSize(800, 7, 2, 3, 1) == 400);
  CHECK(ConvOutputSize(19, 3, 1, 6, 6) == 19);
  CHECK(PoolOutputSize(75, {.kernel = 2, .stride = 2, .pad = 0, .ceil = true}) == 38);
  CHECK(PoolOutputSize(75, {.kernel = 2, .stride = 2, .pad = 0, .ceil = false}) == 37);
  CHECK(PoolOutputSize(112, {.kernel = 3, .stride = 2, .pad = 1}) == 56);
}

TEST_CASE("file order is torch's and converts back") {
  Param conv{.name = "c", .shape = {2, 3, 3, 4}, .layout = WeightLayout::kConv};
  std::vector<float> file(72), memory(72), again(72);
  for (size_t i = 0; i < file.size(); ++i) file[i] = static_cast<float>(i);
  FromFileOrder(conv, file.data(), memory.data());
  CHECK(memory[1] == 9);  // o 0, y 0, x 0, i 1: file [0, 1, 0, 0]
  ToFileOrder(conv, memory.data(), again.data());
  CHECK(again == file);
  CHECK(FileShape(conv) == Shape{2, 4, 3, 3});
  Param linear{.name = "l", .shape = {2, 24}, .layout = WeightLayout::kLinearHwc, .chw = {4, 2, 3}};
  file.resize(48), memory.resize(48), again.resize(48);
  FromFileOrder(linear, file.data(), memory.data());
  CHECK(memory[1] == 6);  // pixel 0, channel 1
  ToFileOrder(linear, memory.data(), again.data());
  CHECK(again == file);
}

TEST_CASE("the flat buffers are as large as was said before") {
  Graph g = NewGraph();
  TensorId x = g.AddInput("x", {2, 8, 8, 8}, DType::kF32);
  Block(g, x);
  const auto layout = g.shared_layout();
  const auto params = static_cast<size_t>(layout->param_elements());
  const auto states = static_cast<size_t>(layout->state_elements());
  const auto backend = CreateCpuBackend({});
  for (DType type : {DType::kF32, DType::kBF16}) {
    for (int slots : {0, 2}) {
      const ParamBuffers training(*backend, layout, type, true, slots, true);
      CHECK(ParamBuffers::BytesNeeded(*layout, type, true, slots, true) == training.TotalBytes());
      CHECK(training.Bytes(Storage::kOptimizer) == 4 * params * static_cast<size_t>(slots));
    }
    const ParamBuffers inference(*backend, layout, type, false, 0, false);
    CHECK(inference.TotalBytes() == ParamBuffers::BytesNeeded(*layout, type, false, 0, false));
    const size_t element = type == DType::kF32 ? 4 : 6;
    CHECK(inference.TotalBytes() == element * params + 4 * states);
  }
}

TEST_CASE("initial values depend on seed and name only, with the asked spread") {
  ParamLayout layout;
  layout.AddParam({.name = "b.weight", .shape = {1000}, .init = {InitKind::kNormal, 0.5f}});
  layout.AddParam({.name = "a.weight", .shape = {1000}, .init = {InitKind::kUniform, 2}});
  std::vector<float> one(static_cast<size_t>(layout.param_elements())), two(one.size());
  InitializeParams(layout, 3, one.data());
  ParamLayout other;  // another order
  other.AddParam({.name = "a.weight", .shape = {1000}, .init = {InitKind::kUniform, 2}});
  other.AddParam({.name = "b.weight", .shape = {1000}, .init = {InitKind::kNormal, 0.5f}});
  InitializeParams(other, 3, two.data());
  CHECK(one[0] == two[static_cast<size_t>(other.params()[1].offset)]);
  double square = 0;
  for (int i = 0; i < 1000; ++i)
    square += one[static_cast<size_t>(i)] * one[static_cast<size_t>(i)] / 1000;
  CHECK(std::sqrt(square) == Approx(0.5).epsilon(0.1));
  InitializeParams(layout, 4, two.data());
  CHECK(one[0] != two[0]);
}

TEST_CASE("large parameters are drawn by many threads as by one") {
  for (InitKind kind : {InitKind::kNormal, InitKind::kUniform}) {
    ParamLayout layout;
    layout.AddParam({.name = "first", .shape = {3}, .init = {kind, 1}});
    layout.AddParam({.name = "large", .shape = {200001}, .init = {kind, 0.25f}});
    std::vector<float> flat(static_cast<size_t>(layout.param_elements()));
    InitializeParams(layout, 11, flat.data());
    xp::Hash128 name = xp::HashBytes("large");
    xp::RandomStream random(11, xp::RandomPurpose::kInit, static_cast<uint32_t>(name.high),
                            static_cast<uint32_t>(name.low));
    const float* large = flat.data() + layout.params()[1].offset;
    int64_t wrong = 0;
    for (int64_t i = 0; i < 200001; ++i) {
      double x = kind == InitKind::kNormal ? random.Normal() : random.Uniform(-1, 1);
      wrong += large[i] != static_cast<float>(x * 0.25f);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("16-bit floats round to nearest even") {
  CHECK(Bf16ToFloat(FloatToBf16(1.00390625f)) == 1.0f);       // a tie goes to even
  CHECK(Bf16ToFloat(FloatToBf16(1.01171875f)) == 1.015625f);  // and the other one up
  CHECK(HalfToFloat(FloatToHalf(65504)) == 65504);
  CHECK(std::isinf(HalfToFloat(FloatToHalf(65520))));
  CHECK(HalfToFloat(FloatToHalf(6e-8f)) == Approx(5.9604645e-8));
  CHECK(std::isnan(HalfToFloat(FloatToHalf(NAN))));
  for (uint32_t h = 0; h < 0x7c00; ++h) {
    if (FloatToHalf(HalfToFloat(static_cast<uint16_t>(h))) != h) FAIL("half " << h);
  }
}
