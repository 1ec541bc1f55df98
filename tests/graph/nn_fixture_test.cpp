// Layers against PyTorch's numbers (tests/fixtures/ops.safetensors).
#include <string>

#include "catch.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/builder.h"
#include "graph/fixture.h"
#include "graph/nn_check.h"
#include "graph/run_graph.h"

namespace xp::graph {
namespace {

constexpr double kTolerance = 4e-6;

const Fixture& Ops() {
  static const Fixture fixture("ops.safetensors");
  return fixture;
}

std::vector<double> Widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

Shape NhwcShape(const std::string& name) {
  const Shape& s = Ops().shape(name);
  return {s[0], s[2], s[3], s[1]};
}

// A map or a filter: the same permutation takes [N, C, H, W] to [N, H, W, C] and OIHW to OHWI.
TensorId MapInput(OpRunner& run, const std::string& name) {
  return run.Input(name, NhwcShape(name), Ops().Nhwc(name));
}
TensorId VectorInput(OpRunner& run, const std::string& name) {
  return run.InputF32(name, Ops().shape(name), Ops().Floats(name));
}

void CheckMap(OpRunner& run, TensorId id, const std::string& name) {
  CheckClose(name, run.Floats(id), Widened(Ops().Nhwc(name)), kTolerance);
}
void CheckPlain(OpRunner& run, TensorId id, const std::string& name) {
  CheckClose(name, run.Floats(id), Widened(Ops().Floats(name)), kTolerance);
}

struct ConvCase {
  const char* name;
  int stride, pad, dilation, groups;
};

}  // namespace

TEST_CASE("convolutions equal PyTorch's", "[nn][fixture]") {
  const ConvCase cases[] = {{"k1", 1, 0, 1, 1},           {"k1_s2", 2, 0, 1, 1},
                            {"k3", 1, 1, 1, 1},           {"k3_bias", 1, 1, 1, 1},
                            {"k3_dilation2", 1, 2, 2, 1}, {"k3_dilation6", 1, 6, 6, 1},
                            {"k3_groups4", 1, 1, 1, 4},   {"k3_groups4_s2_bias", 2, 1, 1, 4},
                            {"k3_s2", 2, 1, 1, 1},        {"k3_valid", 1, 0, 1, 1},
                            {"k7_s2", 2, 3, 1, 1}};
  for (Backend* backend : TestBackends()) {
    for (const ConvCase& c : cases) {
      const std::string p = std::string("conv.") + c.name + ".";
      INFO(backend->name() << " " << p);
      const ConvAttrs attrs{
          {c.stride, c.stride}, {c.pad, c.pad}, {c.dilation, c.dilation}, c.groups};
      OpRunner run(*backend);
      const TensorId x = MapInput(run, p + "input"), w = MapInput(run, p + "weight");
      const TensorId dy = MapInput(run, p + "grad_output");
      const TensorId y = run.Output("y", NhwcShape(p + "output"));
      const TensorId dx = run.Output("dx", NhwcShape(p + "input"));
      const TensorId dw = run.Output("dw", NhwcShape(p + "weight"));
      std::vector<TensorId> inputs{x, w};
      TensorId db = kNoTensor;
      if (Ops().Has(p + "bias")) {
        inputs.push_back(VectorInput(run, p + "bias"));
        db = run.Output("db", Ops().shape(p + "bias"), DType::kF32);
        run.graph().AddOp(OpType::kBiasGrad, {dy}, {db}, NoAttrs{}, "db");
      }
      run.graph().AddOp(OpType::kConv2d, inputs, {y}, attrs, "conv");
      run.graph().AddOp(OpType::kConv2dDgrad, {dy, w}, {dx}, attrs, "dgrad");
      run.graph().AddOp(OpType::kConv2dWgrad, {x, dy}, {dw}, attrs, "wgrad");
      run.Run();
      CheckMap(run, y, p + "output");
      CheckMap(run, dx, p + "grad_input");
      CheckMap(run, dw, p + "grad_weight");
      if (db != kNoTensor) CheckPlain(run, db, p + "grad_bias");
    }
  }
}

TEST_CASE("a linear layer equals PyTorch's", "[nn][fixture]") {
  for (Backend* backend : TestBackends()) {
    OpRunner run(*backend);
    const TensorId x = VectorInput(run, "linear.input"), w = VectorInput(run, "linear.weight");
    const TensorId b = VectorInput(run, "linear.bias"), dy = VectorInput(run, "linear.grad_output");
    const TensorId y = run.Output("y", {5, 7}), dx = run.Output("dx", {5, 12});
    const TensorId dw = run.Output("dw", {7, 12}), db = run.Output("db", {7}, DType::kF32);
    run.graph().AddOp(OpType::kLinear, {x, w, b}, {y}, ReluAttrs{}, "linear");
    run.graph().AddOp(OpType::kLinearDgrad, {dy, w}, {dx}, NoAttrs{}, "dgrad");
    run.graph().AddOp(OpType::kLinearWgrad, {x, dy}, {dw}, NoAttrs{}, "wgrad");
    run.graph().AddOp(OpType::kBiasGrad, {dy}, {db}, NoAttrs{}, "db");
    run.Run();
    INFO(backend->name());
    CheckPlain(run, y, "linear.output");
    CheckPlain(run, dx, "linear.grad_input");
    CheckPlain(run, dw, "linear.grad_weight");
    CheckPlain(run, db, "linear.grad_bias");
  }
}

TEST_CASE("batch norm in training equals PyTorch's", "[nn][fixture]") {
  for (Backend* backend : TestBackends()) {
    for (const char* name : {"plain", "shifted"}) {
      const std::string p = std::string("batch_norm.") + name + ".train.";
      INFO(backend->name() << " " << p);
      OpRunner run(*backend);
      const TensorId x = MapInput(run, p + "input"), dy = MapInput(run, p + "grad_output");
      const TensorId scale = VectorInput(run, p + "weight"), bias = VectorInput(run, p + "bias");
      const TensorId mean = VectorInput(run, p + "running_mean");
      const TensorId var = VectorInput(run, p + "running_var");
      const Shape shape = NhwcShape(p + "input"), channels{shape[3]};
      const TensorId y = run.Output("y", shape), dx = run.Output("dx", shape);
      const TensorId m = run.Output("m", channels, DType::kF32);
      const TensorId s = run.Output("s", channels, DType::kF32);
      const TensorId dscale = run.Output("dscale", channels, DType::kF32);
      const TensorId dbias = run.Output("dbias", channels, DType::kF32);
      run.graph().AddOp(OpType::kBatchNorm, {x, scale, bias, mean, var},
                        {y, m, s, kNoTensor, mean, var}, NormAttrs{}, "bn");
      run.graph().AddOp(OpType::kBatchNormGrad, {dy, x, scale, m, s, kNoTensor},
                        {dx, dscale, dbias}, NormAttrs{}, "grad");
      run.Run();
      CheckMap(run, y, p + "output");
      CheckMap(run, dx, p + "grad_input");
      CheckPlain(run, dscale, p + "grad_weight");
      CheckPlain(run, dbias, p + "grad_bias");
      CheckPlain(run, mean, p + "running_mean_after");
      CheckPlain(run, var, p + "running_var_after");
    }
  }
}

TEST_CASE("batch norm with fixed statistics equals PyTorch's", "[nn][fixture]") {
  for (Backend* backend : TestBackends()) {
    for (const char* name : {"plain.eval", "shifted.eval", "frozen"}) {
      const std::string p = std::string("batch_norm.") + name + ".";
      INFO(backend->name() << " " << p);
      const bool frozen = !Ops().Has(p + "grad_weight");
      OpRunner run(*backend);
      const TensorId x = MapInput(run, p + "input"), dy = MapInput(run, p + "grad_output");
      const TensorId scale = VectorInput(run, p + "weight"), bias = VectorInput(run, p + "bias");
      const TensorId mean = VectorInput(run, p + "running_mean");
      const TensorId var = VectorInput(run, p + "running_var");
      const Shape shape = NhwcShape(p + "input"), channels{shape[3]};
      const TensorId y = run.Output("y", shape), dx = run.Output("dx", shape);
      const TensorId dscale = frozen ? kNoTensor : run.Output("dscale", channels, DType::kF32);
      const TensorId dbias = frozen ? kNoTensor : run.Output("dbias", channels, DType::kF32);
      run.graph().AddOp(OpType::kAffine, {x, scale, bias, mean, var}, {y}, NormAttrs{}, "affine");
      run.graph().AddOp(OpType::kAffineGrad,
                        {dy, frozen ? kNoTensor : x, scale, mean, var, kNoTensor},
                        {dx, dscale, dbias, kNoTensor}, NormAttrs{}, "grad");
      run.Run();
      CheckMap(run, y, p + "output");
      CheckMap(run, dx, p + "grad_input");
      if (frozen) continue;
      CheckPlain(run, dscale, p + "grad_weight");
      CheckPlain(run, dbias, p + "grad_bias");
    }
  }
}

TEST_CASE("pooling equals PyTorch's", "[nn][fixture]") {
  const std::pair<const char*, PoolAttrs> cases[] = {{"k1_s2", {1, 2, 0, false}},
                                                     {"k2_s2_ceil", {2, 2, 0, true}},
                                                     {"k3_s1_p1", {3, 1, 1, false}},
                                                     {"k3_s2_p1", {3, 2, 1, false}}};
  for (Backend* backend : TestBackends()) {
    for (const auto& [name, attrs] : cases) {
      const std::string p = std::string("max_pool.") + name + ".";
      INFO(backend->name() << " " << p);
      OpRunner run(*backend);
      const TensorId x = MapInput(run, p + "input"), dy = MapInput(run, p + "grad_output");
      const TensorId y = run.Output("y", NhwcShape(p + "output"));
      const TensorId arg = run.Output("arg", NhwcShape(p + "output"), DType::kU8);
      const TensorId dx = run.Output("dx", NhwcShape(p + "input"));
      run.graph().AddOp(OpType::kMaxPool, {x}, {y, arg}, attrs, "pool");
      run.graph().AddOp(OpType::kMaxPoolGrad, {dy, arg}, {dx}, attrs, "grad");
      run.Run();
      CheckMap(run, y, p + "output");
      CheckMap(run, dx, p + "grad_input");
    }
    OpRunner run(*backend);
    const TensorId x = MapInput(run, "global_avg_pool.input");
    const TensorId dy = run.Input("dy", {2, 6}, Ops().Floats("global_avg_pool.grad_output"));
    const TensorId y = run.Output("y", {2, 6});
    const TensorId dx = run.Output("dx", NhwcShape("global_avg_pool.input"));
    run.graph().AddOp(OpType::kGlobalAvgPool, {x}, {y}, NoAttrs{}, "pool");
    run.graph().AddOp(OpType::kGlobalAvgPoolGrad, {dy}, {dx}, NoAttrs{}, "grad");
    run.Run();
    CheckPlain(run, y, "global_avg_pool.output");
    CheckMap(run, dx, "global_avg_pool.grad_input");
  }
}

TEST_CASE("upsampling with addition equals PyTorch's", "[nn][fixture]") {
  for (Backend* backend : TestBackends()) {
    for (const char* name : {"odd", "twice", "uneven"}) {
      const std::string p = std::string("upsample_add.") + name + ".";
      INFO(backend->name() << " " << p);
      OpRunner run(*backend);
      const TensorId top = MapInput(run, p + "top"), lateral = MapInput(run, p + "lateral");
      const TensorId dy = MapInput(run, p + "grad_output");
      const TensorId y = run.Output("y", NhwcShape(p + "output"));
      const TensorId dtop = run.Output("dtop", NhwcShape(p + "top"));
      run.graph().AddOp(OpType::kUpsampleAdd, {top, lateral}, {y}, NoAttrs{}, "up");
      run.graph().AddOp(OpType::kUpsampleGrad, {dy}, {dtop}, NoAttrs{}, "grad");
      run.Run();
      CheckMap(run, y, p + "output");
      CheckMap(run, dtop, p + "grad_top");
    }
  }
}

TEST_CASE("ReLU, L2 norm and cross-entropy equal PyTorch's", "[nn][fixture]") {
  for (Backend* backend : TestBackends()) {
    INFO(backend->name());
    OpRunner run(*backend);
    const Shape shape = NhwcShape("relu.input");
    const TensorId rx = MapInput(run, "relu.input"), rdy = MapInput(run, "relu.grad_output");
    const TensorId ry = run.Output("ry", shape), rdx = run.Output("rdx", shape);
    run.graph().AddOp(OpType::kRelu, {rx}, {ry}, NoAttrs{}, "relu");
    run.graph().AddOp(OpType::kReluGrad, {rdy, ry}, {rdx}, NoAttrs{}, "relu_grad");
    const TensorId lx = MapInput(run, "l2_norm.input"), ldy = MapInput(run, "l2_norm.grad_output");
    const TensorId scale = VectorInput(run, "l2_norm.scale");
    const TensorId ly = run.Output("ly", NhwcShape("l2_norm.input"));
    const TensorId ldx = run.Output("ldx", NhwcShape("l2_norm.input"));
    const TensorId dscale = run.Output("dscale", {6}, DType::kF32);
    run.graph().AddOp(OpType::kL2Norm, {lx, scale}, {ly}, NoAttrs{}, "l2");
    run.graph().AddOp(OpType::kL2NormGrad, {ldy, lx, scale}, {ldx, dscale}, NoAttrs{}, "l2_grad");
    std::vector<std::pair<TensorId, std::string>> plain{{dscale, "l2_norm.grad_scale"}};
    for (const char* name : {"plain", "smoothing"}) {
      const std::string p = std::string("cross_entropy.") + name + ".";
      const TensorId logits = VectorInput(run, p + "logits");
      const TensorId labels = run.InputI32(p + "labels", {9}, Ops().Ints(p + "labels"));
      const TensorId loss = run.Output(p + "loss", {1}, DType::kF32);
      const TensorId dlogits = run.Output(p + "dlogits", {9, 7});
      const TensorId correct = run.Output(p + "correct", {2}, DType::kI32);
      const CrossEntropyAttrs attrs{name[0] == 's' ? 0.1f : 0.0f};
      run.graph().AddOp(OpType::kSoftmaxCrossEntropy, {logits, labels}, {loss, dlogits, correct},
                        attrs, "loss");
      plain.emplace_back(loss, p + "output");
      plain.emplace_back(dlogits, p + "grad_logits");
    }
    run.Run();
    CheckMap(run, ry, "relu.output");
    CheckMap(run, rdx, "relu.grad_input");
    CheckMap(run, ly, "l2_norm.output");
    CheckMap(run, ldx, "l2_norm.grad_input");
    for (const auto& [id, name] : plain) CheckPlain(run, id, name);
  }
}

// Pool, linear, ReLU, linear, sigmoid and scaling as one graph, with the gradients that
// AppendBackward puts together.
TEST_CASE("a squeeze-and-excitation block equals PyTorch's", "[nn][fixture]") {
  const std::string p = "squeeze_excite.";
  for (Backend* backend : TestBackends()) {
    auto layout = std::make_shared<ParamLayout>();
    Graph g(layout);
    const TensorId x = g.AddInput("x", NhwcShape(p + "input"), DType::kF32);
    const TensorId dy = g.AddInput("dy", NhwcShape(p + "input"), DType::kF32);
    TensorId s = Linear(g, GlobalAvgPool(g, x, "squeeze"), "fc1", {.out_features = 4});
    s = Linear(g, Relu(g, s, "relu"), "fc2", {.out_features = 8});
    const TensorId y = ScaleChannels(g, x, Sigmoid(g, s, "sigmoid"), "scale");
    g.SeedGradient(y, dy);
    AppendBackward(g);
    g.tensor(y).storage = Storage::kOutput;
    ParamBuffers params(*backend, layout, DType::kF32, true, 0, false);
    std::vector<float> flat(static_cast<size_t>(layout->param_elements()));
    const std::pair<const char*, const char*> names[] = {
        {"fc1.weight", "w1"}, {"fc1.bias", "b1"}, {"fc2.weight", "w2"}, {"fc2.bias", "b2"}};
    for (const auto& [param, tensor] : names) {
      const Param& at = layout->params()[static_cast<size_t>(layout->FindParam(param))];
      const auto values = Ops().Floats(p + tensor);
      std::copy(values.begin(), values.end(), flat.begin() + at.offset);
    }
    params.Write(Storage::kParam, flat);
    Program program(*backend, g, params);
    const auto image = Ops().Nhwc(p + "input"), grad = Ops().Nhwc(p + "grad_output");
    program.SetInput(x, image.data(), image.size() * 4);
    program.SetInput(dy, grad.data(), grad.size() * 4);
    program.Run();
    INFO(backend->name());
    std::vector<float> got(image.size());
    program.Read(y, got.data(), got.size() * 4);
    CheckClose("output", got, Widened(Ops().Nhwc(p + "output")), kTolerance);
    const std::vector<float> gradients = params.Read(Storage::kGrad);
    for (const auto& [param, tensor] : names) {
      const Param& at = layout->params()[static_cast<size_t>(layout->FindParam(param))];
      const auto begin = gradients.begin() + at.offset;
      CheckClose(param, {begin, begin + at.elements()}, Widened(Ops().Floats(p + "grad_" + tensor)),
                 kTolerance);
    }
  }
}

}  // namespace xp::graph
