// kSgd, kAdam and kLars against their rules in double precision, on every backend and type.
#include "catch.h"
#include "graph/update_support.h"

using namespace xp::graph;

namespace {

struct Options {
  OpType type = OpType::kSgd;
  UpdateAttrs attrs;
  float factor = 1;
  bool with_factor = true;
};

struct State {
  std::vector<double> param, first, second;  // momentum, or m and v
  double step = 0;
};

double Clipped(double g, double bound) {
  return bound > 0 ? std::min(std::max(g, -bound), bound) : g;
}

void ReferenceSgd(const Options& o, const Segment& s, const std::vector<float>& grad, double lr,
                  State& state) {
  double rate = 1;
  auto gradient = [&](size_t i) { return Clipped(grad[i] * double{o.factor}, o.attrs.max_value); };
  auto begin = static_cast<size_t>(s.offset), end = begin + static_cast<size_t>(s.count);
  if (o.type == OpType::kLars) {
    double p2 = 0, g2 = 0;
    for (size_t i = begin; i < end; ++i) {
      p2 += state.param[i] * state.param[i];
      g2 += gradient(i) * gradient(i);
    }
    rate = o.attrs.trust * std::sqrt(p2) / (std::sqrt(g2) + s.decay * std::sqrt(p2));
    if (p2 == 0 || g2 == 0) rate = 1;
  }
  for (size_t i = begin; i < end; ++i) {
    double g = rate * (gradient(i) + s.decay * state.param[i]);
    double m = state.first[i] = o.attrs.momentum * state.first[i] + g;
    state.param[i] -= lr * s.lr_multiplier * (o.attrs.nesterov ? g + o.attrs.momentum * m : m);
  }
}

void ReferenceAdam(const Options& o, const Segment& s, const std::vector<float>& grad, double lr,
                   State& state) {
  double b1 = o.attrs.beta1, b2 = o.attrs.beta2;
  lr *= s.lr_multiplier;
  for (auto i = static_cast<size_t>(s.offset); i < static_cast<size_t>(s.offset + s.count); ++i) {
    double& p = state.param[i];
    double g = Clipped(grad[i] * double{o.factor}, o.attrs.max_value);
    if (o.attrs.decoupled) {
      p *= 1 - lr * s.decay;
    } else {
      g += s.decay * p;
    }
    state.first[i] = b1 * state.first[i] + (1 - b1) * g;
    state.second[i] = b2 * state.second[i] + (1 - b2) * g * g;
    double m = state.first[i] / (1 - std::pow(b1, state.step));
    double v = state.second[i] / (1 - std::pow(b2, state.step));
    p -= lr * m / (std::sqrt(v) + o.attrs.eps);
  }
}

// Largest difference, relative to the largest value.
double Difference(const std::vector<float>& got, const std::vector<double>& want) {
  double worst = 0, scale = 1e-30;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i])) return INFINITY;
    worst = std::max(worst, std::abs(got[i] - want[i]));
    scale = std::max(scale, std::abs(want[i]));
  }
  return worst / scale;
}

struct Tensors {
  TensorId param, first, second = kNoTensor, step = kNoTensor, compute = kNoTensor;
};

Tensors AddUpdate(OpRunner& run, const UpdateCase& c, const Options& o, DType type) {
  Shape flat{c.total};
  std::vector<float> zero(static_cast<size_t>(c.total));
  bool narrow = type != DType::kF32;
  TensorId grad = run.InputF32("grad", flat, c.PackedGrad());
  TensorId compute_grad = narrow ? run.Input("grad_compute", flat, c.grad_compute) : kNoTensor;
  TensorId sum =
      o.attrs.use_accumulated ? run.InputF32("accumulated", flat, c.accumulated) : kNoTensor;
  TensorId lr = run.InputF32("lr", {1}, {0.1f});
  TensorId factor = o.with_factor ? run.InputF32("factor", {1}, {o.factor}) : kNoTensor;
  Tensors t{.param = run.InputF32("param", flat, c.param), .first = run.InputF32("m", flat, zero)};
  // Parameters in no segment must keep what they have, in the compute copy too.
  if (narrow) t.compute = run.Input("param_compute", flat, std::vector<float>(zero.size(), 7));
  if (o.type == OpType::kAdam) {
    t.second = run.InputF32("v", flat, zero);
    t.step = run.InputF32("step", {1}, {0});
    run.graph().AddOp(o.type,
                      {grad, compute_grad, sum, t.param, t.first, t.second, t.step, lr, factor},
                      {t.param, t.first, t.second, t.step, t.compute}, o.attrs, "update");
  } else {
    run.graph().AddOp(o.type, {grad, compute_grad, sum, t.param, t.first, lr, factor},
                      {t.param, t.first, t.compute}, o.attrs, "update");
  }
  return t;
}

void CheckComputeCopy(const UpdateCase& c, const std::vector<float>& param,
                      const std::vector<float>& copy, DType type) {
  std::vector<float> want(copy.size(), 7);
  for (const Segment& s : c.segments) {
    for (auto i = static_cast<size_t>(s.offset); i < static_cast<size_t>(s.offset + s.count); ++i) {
      want[i] = UpdateCase::Rounded(param[i], type);
    }
  }
  CHECK(copy == want);
}

// Three steps from the state that a step leaves, each compared with the rule.
void CheckRule(Options o) {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      INFO(backend->name() << " " << DTypeName(type) << " factor " << o.factor);
      UpdateCase c(type, 11);
      o.attrs.segments = c.segments;
      OpRunner run(*backend, type);
      Tensors t = AddUpdate(run, c, o, type);
      State state{.param = {c.param.begin(), c.param.end()},
                  .first = std::vector<double>(c.param.size()),
                  .second = std::vector<double>(c.param.size())};
      run.Run();
      for (int step = 1; step <= 3; ++step) {
        if (step > 1) run.program().Run();
        state.step = step;
        for (const Segment& s : c.segments) {
          const std::vector<float>& grad = c.GradOf(s, o.attrs.use_accumulated);
          (o.type == OpType::kAdam ? ReferenceAdam : ReferenceSgd)(o, s, grad, 0.1f, state);
        }
        std::vector<float> param = run.Floats(t.param);
        CHECK(Difference(param, state.param) < 2e-6);
        CHECK(Difference(run.Floats(t.first), state.first) < 2e-6);
        if (t.second != kNoTensor) CHECK(Difference(run.Floats(t.second), state.second) < 2e-6);
        if (t.step != kNoTensor) CHECK(run.Floats(t.step)[0] == static_cast<float>(step));
        if (t.compute != kNoTensor) CheckComputeCopy(c, param, run.Floats(t.compute), type);
      }
    }
  }
}

}  // namespace

TEST_CASE("SGD follows torch's rule") {
  CheckRule({.attrs = {.momentum = 0.9f}, .factor = 0.25f});
  CheckRule({.attrs = {.momentum = 0}, .with_factor = false});
  CheckRule({.attrs = {.momentum = 0.8f, .nesterov = true}, .factor = 1.5f});
  CheckRule({.attrs = {.momentum = 0.9f, .max_value = 0.4f}, .factor = 0.5f});
  CheckRule({.attrs = {.momentum = 0.9f, .use_accumulated = true}, .factor = 0.5f});
}

TEST_CASE("Adam and AdamW follow torch's rule") {
  CheckRule({.type = OpType::kAdam, .factor = 0.25f});
  CheckRule({.type = OpType::kAdam, .attrs = {.decoupled = true}, .with_factor = false});
  CheckRule({.type = OpType::kAdam,
             .attrs = {.beta1 = 0.8f, .beta2 = 0.95f, .eps = 1e-3f, .max_value = 0.3f}});
}

TEST_CASE("LARS scales each layer by the ratio of its norms") {
  CheckRule({.type = OpType::kLars, .attrs = {.trust = 0.02f}, .factor = 0.25f});
  CheckRule({.type = OpType::kLars, .attrs = {.nesterov = true, .trust = 0.5f}});
}

TEST_CASE("LARS moves a layer of zeros by the global rate") {
  for (Backend* backend : TestBackends()) {
    UpdateCase c(DType::kF32, 5);
    std::fill(c.param.begin(), c.param.end(), 0.0f);
    Options o{.type = OpType::kLars, .attrs = {.momentum = 0}};
    o.attrs.segments = {{.offset = 0, .count = 30, .grad_offset = 34816}};
    OpRunner run(*backend);
    Tensors t = AddUpdate(run, c, o, DType::kF32);
    run.Run();
    CHECK(run.Floats(t.param)[3] == Approx(-0.1 * c.grad[3]));
  }
}

TEST_CASE("a factor of 0 leaves parameters, state and step count as they were") {
  for (OpType type : {OpType::kSgd, OpType::kAdam, OpType::kLars}) {
    for (Backend* backend : TestBackends()) {
      UpdateCase c(DType::kF32, 3);
      c.grad[100] = c.grad[600] = INFINITY;
      Options o{.type = type, .factor = 0};
      o.attrs.segments = c.segments;
      OpRunner run(*backend);
      Tensors t = AddUpdate(run, c, o, DType::kF32);
      run.Run();
      CHECK(run.Floats(t.param) == c.param);
      CHECK(run.Floats(t.first) == std::vector<float>(c.param.size()));
      if (t.step != kNoTensor) CHECK(run.Floats(t.step)[0] == 0);
    }
  }
}

TEST_CASE("an update repeats bit for bit") {
  for (OpType type : {OpType::kSgd, OpType::kAdam, OpType::kLars}) {
    for (Backend* backend : TestBackends()) {
      UpdateCase c(DType::kF32, 9);
      Options o{.type = type, .factor = 0.3f};
      o.attrs.segments = c.segments;
      OpRunner run(*backend);
      Tensors t = AddUpdate(run, c, o, DType::kF32);
      run.Run();
      std::vector<uint8_t> first = run.Bytes(t.param);
      for (int i = 0; i < 2; ++i) {
        run.Run();
        CHECK(run.Bytes(t.param) == first);
      }
    }
  }
}
