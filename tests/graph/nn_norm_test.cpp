// Batch normalisation with batch statistics and with fixed ones, and their gradients, against the
// formulas in double; the residual, the ReLU and its bit mask included.
#include <cmath>
#include <string>

#include "catch.h"
#include "graph/nn_check.h"
#include "graph/run_graph.h"

namespace xp::graph {
namespace {

using Doubles = std::vector<double>;

struct Case {
  Shape shape;
  bool relu, residual, mask;
  double low = -1, high = 1;  // of x
};

const Case kCases[] = {
    {{2, 9, 11, 8}, false, false, false},
    {{2, 9, 11, 8}, true, false, true},
    {{2, 9, 11, 8}, true, true, true},
    {{4, 40, 40, 64}, true, true, true},
    {{1, 7, 5, 3}, true, true, true},     // mask bytes straddle rows
    {{2, 6, 7, 100}, true, false, true},  // channels not divisible by 8
    {{3, 5, 5, 2050}, true, true, true},  // more channels than a block
    {{2, 3, 3, 16}, false, true, false},
    {{2, 3, 3, 16}, true, true, false},  // evaluation: no mask kept
    {{5, 6}, true, false, true},         // a matrix
    {{6, 1, 1, 4}, false, false, false},
    {{2, 30, 30, 16}, true, false, true, 999, 1001},  // far from zero: squares would cancel
    {{2, 30, 30, 5}, false, false, false, -5000, -4990},
};

struct Data {
  int64_t n, c;
  std::vector<float> x, residual, dy, scale, bias, mean, var;
};

Data DataOf(const Case& t, DType type) {
  Data d;
  d.n = NumElements(t.shape);
  d.c = t.shape.back();
  d.x = Values(d.n, 1, type, t.low, t.high);
  d.residual = Values(d.n, 2, type);
  d.dy = Values(d.n, 3, type);
  d.scale = Values(d.c, 4, DType::kF32, 0.5, 1.5);
  d.bias = Values(d.c, 5, DType::kF32);
  d.mean = Values(d.c, 6, DType::kF32, t.low, t.high);
  d.var = Values(d.c, 7, DType::kF32, 0.2, 2);
  return d;
}

constexpr double kEps = 1e-5, kMomentum = 0.1;

struct Statistics {
  Doubles mean, variance;
};

Statistics BatchStatistics(const Data& d) {
  const auto c = static_cast<size_t>(d.c);
  const double rows = static_cast<double>(d.n) / static_cast<double>(d.c);
  Statistics s{Doubles(c), Doubles(c)};
  for (size_t i = 0; i < d.x.size(); ++i) s.mean[i % c] += static_cast<double>(d.x[i]) / rows;
  for (size_t i = 0; i < d.x.size(); ++i) {
    const double e = static_cast<double>(d.x[i]) - s.mean[i % c];
    s.variance[i % c] += e * e / rows;
  }
  return s;
}

Doubles Normalised(const Case& t, const Data& d, const Statistics& s) {
  const auto c = static_cast<size_t>(d.c);
  Doubles y(d.x.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t k = i % c;
    y[i] = static_cast<double>(d.scale[k]) * (static_cast<double>(d.x[i]) - s.mean[k]) /
               std::sqrt(s.variance[k] + static_cast<double>(static_cast<float>(kEps))) +
           static_cast<double>(d.bias[k]);
    if (t.residual) y[i] += static_cast<double>(d.residual[i]);
    if (t.relu && y[i] < 0) y[i] = 0;
  }
  return y;
}

struct Gradient {
  Doubles dx, dscale, dbias, dresidual;
};

// `batch`: the statistics depend on x.
Gradient GradientOf(const Data& d, const Statistics& s, const std::vector<uint8_t>& mask,
                    bool batch) {
  const auto c = static_cast<size_t>(d.c);
  const double rows = static_cast<double>(d.n) / static_cast<double>(d.c);
  Gradient g{Doubles(d.x.size()), Doubles(c), Doubles(c), Doubles(d.x.size())};
  Doubles hat(d.x.size()), invstd(c);
  for (size_t k = 0; k < c; ++k) {
    invstd[k] = 1 / std::sqrt(s.variance[k] + static_cast<double>(static_cast<float>(kEps)));
  }
  for (size_t i = 0; i < d.x.size(); ++i) {
    const bool on = mask.empty() || ((mask[i / 8] >> (i % 8)) & 1) != 0;
    g.dresidual[i] = on ? static_cast<double>(d.dy[i]) : 0;
    hat[i] = (static_cast<double>(d.x[i]) - s.mean[i % c]) * invstd[i % c];
    g.dbias[i % c] += g.dresidual[i];
    g.dscale[i % c] += g.dresidual[i] * hat[i];
  }
  for (size_t i = 0; i < d.x.size(); ++i) {
    const size_t k = i % c;
    double v = g.dresidual[i];
    if (batch) v -= g.dbias[k] / rows + hat[i] * g.dscale[k] / rows;
    g.dx[i] = static_cast<double>(d.scale[k]) * invstd[k] * v;
  }
  return g;
}

std::vector<uint8_t> BitsOf(const std::vector<float>& y) {
  std::vector<uint8_t> bits((y.size() + 7) / 8);
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i] > 0) bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (1u << (i % 8)));
  }
  return bits;
}

std::string Describe(const Backend& backend, DType type, const Case& t) {
  return backend.name() + " " + DTypeName(type) + " " + ShapeText(t.shape) +
         (t.relu ? " relu" : "") + (t.residual ? " residual" : "") + (t.mask ? " mask" : "");
}

NormAttrs AttrsOf(const Case& t) {
  NormAttrs attrs;
  attrs.eps = static_cast<float>(kEps);
  attrs.momentum = static_cast<float>(kMomentum);
  attrs.relu = t.relu;
  return attrs;
}

// Sums of values around 1000 have a rounding of their own, relative to those values.
double ToleranceOf(DType type, const Case& t) {
  const double far = std::max(std::fabs(t.low), std::fabs(t.high)) / (t.high - t.low);
  return Tolerance(type) * std::max(1.0, type == DType::kF32 ? far : 1.0);
}

void CheckBatchNorm(Backend& backend, DType type, const Case& t) {
  INFO(Describe(backend, type, t));
  const Data d = DataOf(t, type);
  const Statistics s = BatchStatistics(d);
  OpRunner run(backend, type);
  const TensorId x = run.Input("x", t.shape, d.x);
  const TensorId scale = run.InputF32("scale", {d.c}, d.scale);
  const TensorId bias = run.InputF32("bias", {d.c}, d.bias);
  const TensorId mean = run.InputF32("mean", {d.c}, d.mean);
  const TensorId var = run.InputF32("var", {d.c}, d.var);
  const TensorId dy = run.Input("dy", t.shape, d.dy);
  std::vector<TensorId> inputs{x, scale, bias, mean, var};
  if (t.residual) inputs.push_back(run.Input("residual", t.shape, d.residual));
  const TensorId y = run.Output("y", t.shape);
  const TensorId save_mean = run.Output("save_mean", {d.c}, DType::kF32);
  const TensorId save_invstd = run.Output("save_invstd", {d.c}, DType::kF32);
  const TensorId mask = t.mask ? run.Output("mask", {(d.n + 7) / 8}, DType::kU8) : kNoTensor;
  run.graph().AddOp(OpType::kBatchNorm, inputs, {y, save_mean, save_invstd, mask, mean, var},
                    AttrsOf(t), "bn");
  const TensorId dx = run.Output("dx", t.shape);
  const TensorId dscale = run.Output("dscale", {d.c}, DType::kF32);
  const TensorId dbias = run.Output("dbias", {d.c}, DType::kF32);
  const TensorId dresidual = t.residual ? run.Output("dresidual", t.shape) : kNoTensor;
  run.graph().AddOp(OpType::kBatchNormGrad, {dy, x, scale, save_mean, save_invstd, mask},
                    {dx, dscale, dbias, dresidual}, AttrsOf(t), "bn_grad");
  run.Run();
  const double tolerance = ToleranceOf(type, t), fine = ToleranceOf(DType::kF32, t);
  const std::vector<float> got_y = run.Floats(y);
  CheckClose("y", got_y, Normalised(t, d, s), tolerance);
  CheckClose("save_mean", run.Floats(save_mean), s.mean, Tolerance(DType::kF32));
  Doubles invstd, running_mean, running_var;
  const double rows = static_cast<double>(d.n) / static_cast<double>(d.c);
  for (size_t k = 0; k < s.mean.size(); ++k) {
    invstd.push_back(1 / std::sqrt(s.variance[k] + kEps));
    running_mean.push_back(0.9 * static_cast<double>(d.mean[k]) + 0.1 * s.mean[k]);
    running_var.push_back(0.9 * static_cast<double>(d.var[k]) +
                          0.1 * s.variance[k] * rows / (rows - 1));
  }
  CheckClose("save_invstd", run.Floats(save_invstd), invstd, 5e-6);
  CheckClose("running mean", run.Floats(mean), running_mean, Tolerance(DType::kF32));
  CheckClose("running variance", run.Floats(var), running_var, 5e-6);
  const std::vector<uint8_t> bits = t.mask ? run.Bytes(mask) : std::vector<uint8_t>{};
  if (t.mask) CHECK(bits == BitsOf(got_y));
  const Gradient g = GradientOf(d, s, bits, true);
  CheckClose("dx", run.Floats(dx), g.dx, tolerance * 2);
  CheckClose("dscale", run.Floats(dscale), g.dscale, fine * 4);
  CheckClose("dbias", run.Floats(dbias), g.dbias, 4e-6);
  if (t.residual) CheckClose("dresidual", run.Floats(dresidual), g.dresidual, 0);
}

void CheckAffine(Backend& backend, DType type, const Case& t) {
  INFO(Describe(backend, type, t));
  const Data d = DataOf(t, type);
  const Statistics s{{d.mean.begin(), d.mean.end()}, {d.var.begin(), d.var.end()}};
  OpRunner run(backend, type);
  const TensorId x = run.Input("x", t.shape, d.x);
  const TensorId scale = run.InputF32("scale", {d.c}, d.scale);
  const TensorId bias = run.InputF32("bias", {d.c}, d.bias);
  const TensorId mean = run.InputF32("mean", {d.c}, d.mean);
  const TensorId var = run.InputF32("var", {d.c}, d.var);
  const TensorId dy = run.Input("dy", t.shape, d.dy);
  std::vector<TensorId> inputs{x, scale, bias, mean, var};
  if (t.residual) inputs.push_back(run.Input("residual", t.shape, d.residual));
  const TensorId y = run.Output("y", t.shape);
  const TensorId mask = t.mask ? run.Output("mask", {(d.n + 7) / 8}, DType::kU8) : kNoTensor;
  run.graph().AddOp(OpType::kAffine, inputs, {y, mask}, AttrsOf(t), "affine");
  const TensorId dx = run.Output("dx", t.shape);
  const TensorId dscale = run.Output("dscale", {d.c}, DType::kF32);
  const TensorId dbias = run.Output("dbias", {d.c}, DType::kF32);
  const TensorId dresidual = t.residual ? run.Output("dresidual", t.shape) : kNoTensor;
  run.graph().AddOp(OpType::kAffineGrad, {dy, x, scale, mean, var, mask},
                    {dx, dscale, dbias, dresidual}, AttrsOf(t), "affine_grad");
  // Frozen: no x, nothing but dx.
  const TensorId frozen = run.Output("frozen", t.shape);
  run.graph().AddOp(OpType::kAffineGrad, {dy, kNoTensor, scale, mean, var, mask},
                    {frozen, kNoTensor, kNoTensor, kNoTensor}, AttrsOf(t), "frozen_grad");
  run.Run();
  const double tolerance = ToleranceOf(type, t);
  const std::vector<float> got_y = run.Floats(y);
  CheckClose("y", got_y, Normalised(t, d, s), tolerance);
  const std::vector<uint8_t> bits = t.mask ? run.Bytes(mask) : std::vector<uint8_t>{};
  if (t.mask) CHECK(bits == BitsOf(got_y));
  const Gradient g = GradientOf(d, s, bits, false);
  CheckClose("dx", run.Floats(dx), g.dx, tolerance);
  CheckClose("frozen dx", run.Floats(frozen), g.dx, tolerance);
  CheckClose("dscale", run.Floats(dscale), g.dscale, 4e-6);
  CheckClose("dbias", run.Floats(dbias), g.dbias, 4e-6);
  if (t.residual) CheckClose("dresidual", run.Floats(dresidual), g.dresidual, 0);
}

}  // namespace

TEST_CASE("batch norm equals the formulas in double", "[nn]") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      for (const Case& t : kCases) {
        // Around 1000 the 16-bit types hold no differences worth normalising.
        if (type != DType::kF32 && std::fabs(t.low) > 100) continue;
        CheckBatchNorm(*backend, type, t);
      }
    }
  }
}

TEST_CASE("normalisation with fixed statistics equals the formulas in double", "[nn]") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      for (const Case& t : kCases) {
        if (type != DType::kF32 && std::fabs(t.low) > 100) continue;
        CheckAffine(*backend, type, t);
      }
    }
  }
}

TEST_CASE("one value a channel has variance 0 and stays finite", "[nn]") {
  for (Backend* backend : TestBackends()) {
    OpRunner run(*backend);
    const std::vector<float> ones(4, 1), zeros(4, 0);
    const TensorId x = run.Input("x", {1, 1, 1, 4}, {1, -2, 3, 0});
    const TensorId scale = run.InputF32("scale", {4}, ones);
    const TensorId bias = run.InputF32("bias", {4}, {1, 2, 3, 4});
    const TensorId mean = run.InputF32("mean", {4}, zeros), var = run.InputF32("var", {4}, ones);
    const TensorId y = run.Output("y", {1, 1, 1, 4});
    const TensorId save_mean = run.Output("save_mean", {4}, DType::kF32);
    const TensorId invstd = run.Output("invstd", {4}, DType::kF32);
    run.graph().AddOp(OpType::kBatchNorm, {x, scale, bias, mean, var},
                      {y, save_mean, invstd, kNoTensor, mean, var}, NormAttrs{}, "bn");
    run.Run();
    CHECK(run.Floats(y) == std::vector<float>{1, 2, 3, 4});
    CHECK(run.Floats(save_mean) == std::vector<float>{1, -2, 3, 0});
    CheckClose("var", run.Floats(var), {0.9, 0.9, 0.9, 0.9}, 1e-6);
  }
}

TEST_CASE("batch norm doesn't depend on the number of threads", "[nn]") {
  const Case t{{3, 33, 31, 72}, true, true, true};
  const Data d = DataOf(t, DType::kF32);
  std::vector<std::vector<float>> first;
  for (int threads : {1, 2, 3, 5}) {
    const auto backend = CreateCpuBackend(threads);
    OpRunner run(*backend);
    const TensorId x = run.Input("x", t.shape, d.x), dy = run.Input("dy", t.shape, d.dy);
    const TensorId scale = run.InputF32("scale", {d.c}, d.scale);
    const TensorId bias = run.InputF32("bias", {d.c}, d.bias);
    const TensorId mean = run.InputF32("mean", {d.c}, d.mean);
    const TensorId var = run.InputF32("var", {d.c}, d.var);
    const TensorId residual = run.Input("residual", t.shape, d.residual);
    const TensorId y = run.Output("y", t.shape), dx = run.Output("dx", t.shape);
    const TensorId m = run.Output("m", {d.c}, DType::kF32), s = run.Output("s", {d.c}, DType::kF32);
    const TensorId dscale = run.Output("dscale", {d.c}), dbias = run.Output("dbias", {d.c});
    const TensorId mask = run.Output("mask", {(d.n + 7) / 8}, DType::kU8);
    const TensorId dresidual = run.Output("dresidual", t.shape);
    run.graph().AddOp(OpType::kBatchNorm, {x, scale, bias, mean, var, residual},
                      {y, m, s, mask, mean, var}, AttrsOf(t), "bn");
    run.graph().AddOp(OpType::kBatchNormGrad, {dy, x, scale, m, s, mask},
                      {dx, dscale, dbias, dresidual}, AttrsOf(t), "grad");
    for (int i = 0; i < 3; ++i) {
      run.Run();
      std::vector<std::vector<float>> got;
      for (TensorId id : {y, m, s, dx, dscale, dbias, dresidual}) got.push_back(run.Floats(id));
      if (first.empty()) first = got;
      INFO(threads << " threads");
      CHECK(got == first);
    }
  }
}

}  // namespace xp::graph
