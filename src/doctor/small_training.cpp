#include <cstring>

#include "exp/base/hash.h"
#include "exp/base/philox.h"
#include "exp/doctor/smoke.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/builder.h"
#include "exp/graph/passes.h"
#include "exp/graph/program.h"
#include "exp/train/update.h"

namespace xp::doctor {
namespace {

using graph::Graph;
using graph::Storage;
using graph::TensorId;

constexpr int kBatch = 16, kSide = 32, kClasses = 10;

TensorId ConvNormRelu(Graph& g, TensorId x, const std::string& name, int channels, int stride) {
  graph::ConvOptions conv{.out_channels = channels, .kernel = 3, .stride = stride, .pad = 1};
  conv.init = graph::KaimingNormalFanOut(channels, 3, 1);
  x = graph::Conv2d(g, x, name, conv);
  return graph::Relu(g, graph::BatchNorm(g, x, name + ".bn", {}), name + ".relu");
}

Graph Build(const train::OptimizerOptions& optimizer) {
  Graph g(std::make_shared<graph::ParamLayout>());
  TensorId images = g.AddInput("images", {kBatch, kSide, kSide, 3}, graph::DType::kU8);
  TensorId sizes = g.AddInput("sizes", {kBatch, 2}, graph::DType::kI32);
  TensorId labels = g.AddInput("labels", {kBatch}, graph::DType::kI32);
  TensorId x = graph::ImageNormalize(g, images, sizes, {{0.5f, 0.5f, 0.5f}, {0.3f, 0.3f, 0.3f}});
  x = ConvNormRelu(g, x, "a", 16, 1);
  x = graph::MaxPool(g, x, {.kernel = 3, .stride = 2, .pad = 1}, "pool");
  x = ConvNormRelu(g, x, "b", 32, 2);
  graph::Init init = graph::LinearDefault(32);
  TensorId logits = graph::Linear(g, graph::GlobalAvgPool(g, x, "mean"), "fc",
                                  {.out_features = kClasses, .init = init, .bias_init = init});
  TensorId grad = g.AddTemp("d logits", g.tensor(logits).shape);
  g.SeedGradient(logits, grad);
  g.AddOp(graph::OpType::kSoftmaxCrossEntropy, {logits, labels, graph::kNoTensor},
          {g.AddOutput("loss", {1}, graph::DType::kF32), grad,
           g.AddOutput("correct", {2}, graph::DType::kI32)},
          graph::CrossEntropyAttrs{}, "loss");
  graph::RunPasses(g, {});
  graph::AppendBackward(g);
  train::AppendUpdate(g, optimizer);
  return g;
}

void SetInputs(graph::Program& program) {
  RandomStream random(3, RandomPurpose::kTest, 0, 0);
  std::vector<uint8_t> images(size_t{kBatch} * kSide * kSide * 3);
  for (uint8_t& v : images) v = static_cast<uint8_t>(random.NextU32());
  program.SetInput("images", images.data(), images.size());
  std::vector<int32_t> sizes(kBatch * 2, kSide), labels;
  labels.reserve(kBatch);
  for (int i = 0; i < kBatch; ++i) labels.push_back(i % kClasses);
  program.SetInput("sizes", sizes.data(), sizes.size() * 4);
  program.SetInput("labels", labels.data(), labels.size() * 4);
  float lr = 0.05f;
  program.SetInput("lr", &lr, sizeof(lr));
}

}  // namespace

SmallTraining TrainSmall(graph::Backend& backend, int steps) {
  train::OptimizerOptions optimizer;
  Graph g = Build(optimizer);
  auto layout = g.shared_layout();
  graph::ParamBuffers params(backend, layout, g.compute(), true,
                             train::OptimizerSlotCount(optimizer), false);
  std::vector<float> weights(static_cast<size_t>(layout->param_elements())),
      states(static_cast<size_t>(layout->state_elements()));
  graph::InitializeParams(*layout, 0, weights.data());
  graph::InitializeStates(*layout, states.data());
  params.Write(Storage::kState, states);
  params.Write(Storage::kParam, weights);
  graph::Program program(backend, std::move(g), params);
  SetInputs(program);
  SmallTraining result;
  TensorId loss = program.graph().Find("loss", Storage::kOutput);
  for (int i = 0; i < steps; ++i) {
    program.Run();
    float value = 0;
    program.Read(loss, &value, sizeof(value));
    result.losses.push_back(value);
  }
  std::vector<float> after = params.Read(Storage::kParam);
  result.hash = HashBytes(after.data(), after.size() * sizeof(float)).Hex();
  return result;
}

}  // namespace xp::doctor
