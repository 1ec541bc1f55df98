#include "graph/residual_net.h"

#include <utility>

#include "exp/graph/autodiff.h"
#include "exp/graph/builder.h"
#include "exp/graph/passes.h"
#include "graph/nn_check.h"
#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

TensorId ConvNorm(Graph& g, TensorId x, const std::string& name, ConvOptions o) {
  o.init = KaimingNormalFanOut(o.out_channels, o.kernel, o.groups);
  return BatchNorm(g, Conv2d(g, x, name + ".conv", o), name + ".bn", {});
}

TensorId Block(Graph& g, TensorId x, const std::string& name, int width, int stride, bool squeeze) {
  TensorId y = Relu(g, ConvNorm(g, x, name + ".1", {.out_channels = width}), name + ".relu1");
  y = Relu(
      g,
      ConvNorm(g, y, name + ".2", {.out_channels = width, .kernel = 3, .stride = stride, .pad = 1}),
      name + ".relu2");
  y = ConvNorm(g, y, name + ".3", {.out_channels = 4 * width});
  if (squeeze) {
    TensorId s = GlobalAvgPool(g, y, name + ".squeeze");
    s = Linear(g, s, name + ".fc1", {.out_features = width, .init = LinearDefault(4 * width)});
    s = Linear(g, Relu(g, s, name + ".fc1.relu"), name + ".fc2",
               {.out_features = 4 * width, .init = LinearDefault(width)});
    y = ScaleChannels(g, y, Sigmoid(g, s, name + ".sigmoid"), name + ".scale");
  }
  TensorId shortcut = x;
  if (stride != 1 || g.tensor(x).shape.back() != 4 * width) {
    shortcut =
        ConvNorm(g, x, name + ".down", {.out_channels = 4 * width, .kernel = 1, .stride = stride});
  }
  return Relu(g, Add(g, {y, shortcut}, name + ".add"), name + ".relu");
}

constexpr int kClasses = 10;

}  // namespace

Graph ResidualNet(const ResidualNetOptions& o, DType compute) {
  Graph g(std::make_shared<ParamLayout>(), compute);
  const TensorId image = g.AddInput("image", {o.batch, o.size, o.size, 8}, compute);
  const TensorId labels = g.AddInput("labels", {o.batch}, DType::kI32);
  TensorId x = ConvNorm(g, image, "stem", {.out_channels = o.width, .kernel = 3, .pad = 1});
  x = Relu(g, x, "stem.relu");
  if (o.pool) x = MaxPool(g, x, {.kernel = 3, .stride = 2, .pad = 1}, "stem.pool");
  auto block = [&](const std::string& name, int width, int stride) {
    const TensorId in = x;
    x = Block(g, in, name, width, stride, o.squeeze);
    if (o.make_again) g.MakeAgain(in, x);
  };
  block("a", o.width, 1), block("b", o.width, 1), block("c", o.width * 2, 2);
  x = Linear(g, GlobalAvgPool(g, x, "pool"), "fc",
             {.out_features = kClasses, .init = LinearDefault(static_cast<int>(8 * o.width))});
  const TensorId grad = g.AddTemp("d logits", g.tensor(x).shape);
  g.SeedGradient(x, grad);
  g.AddOp(OpType::kSoftmaxCrossEntropy, {x, labels, kNoTensor},
          {g.AddOutput("loss", {1}, DType::kF32), grad, g.AddOutput("correct", {2}, DType::kI32)},
          CrossEntropyAttrs{}, "loss");
  RunPasses(g, {.fuse_norm = true, .fuse_conv = true});
  AppendBackward(g);

  UpdateAttrs sgd;
  for (const Param& p : g.layout().params()) {
    const TensorId own = g.Find(p.name, Storage::kGrad);
    const int64_t at = own == kNoTensor ? 0 : g.tensor(own).offset;
    sgd.segments.push_back({p.offset, p.elements(), 1, 0, own == kNoTensor, at});
  }
  g.BeginUpdate();
  const bool narrow = compute != DType::kF32;
  const TensorId param = g.WholeBuffer(Storage::kParam);
  const TensorId momentum = g.WholeBuffer(Storage::kOptimizer);
  const TensorId grad_compute = narrow ? g.WholeBuffer(Storage::kGradCompute) : kNoTensor;
  const TensorId param_compute = narrow ? g.WholeBuffer(Storage::kParamCompute) : kNoTensor;
  g.AddOp(OpType::kSgd,
          {g.WholeBuffer(Storage::kGrad), grad_compute, kNoTensor, param, momentum,
           g.AddInput("lr", {1}, DType::kF32), kNoTensor},
          {param, momentum, param_compute}, sgd, "sgd");
  return g;
}

Trained TrainResidualNet(Backend& backend, DType compute, const StepPasses& passes, int steps,
                         const ResidualNetOptions& options) {
  Graph g = ResidualNet(options, compute);
  if (!options.as_asked) RunStepPasses(g, passes);
  if (options.join_dgrads) JoinDgrads(g, {.all = true});
  if (options.delay) DelayWideOps(g);
  g.set_fusible(options.as_asked);
  const auto layout = g.shared_layout();
  ParamBuffers params(backend, layout, compute, true, 1, false);
  Trained result;
  result.params.resize(static_cast<size_t>(layout->param_elements()));
  InitializeParams(*layout, 3, result.params.data());
  params.Write(Storage::kParam, result.params);
  result.states.resize(static_cast<size_t>(layout->state_elements()));
  InitializeStates(*layout, result.states.data());
  params.Write(Storage::kState, result.states);

  const TensorId image = g.Find("image", Storage::kInput), loss = g.Find("loss", Storage::kOutput);
  const int64_t pixels = g.tensor(image).elements();
  Program program(backend, std::move(g), params);
  const std::vector<uint8_t> bytes = EncodeFloats(Values(pixels, 5, compute), compute);
  program.SetInput(image, bytes.data(), bytes.size());
  std::vector<int32_t> labels;
  for (int i = 0; i < options.batch; ++i) labels.push_back((i * 7 + 3) % kClasses);
  program.SetInput("labels", labels.data(), labels.size() * sizeof(int32_t));
  const float lr = 0.02f;
  program.SetInput("lr", &lr, sizeof(lr));
  for (int i = 0; i < steps; ++i) {
    program.Run();
    float value = 0;
    program.Read(loss, &value, sizeof(value));
    result.losses.push_back(value);
  }
  result.params = params.Read(Storage::kParam);
  result.states = params.Read(Storage::kState);
  return result;
}

}  // namespace xp::graph
