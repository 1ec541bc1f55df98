// Gram statistics: the ops against batch norm's formulas on y itself in double, their gradients
// against finite differences, and CUDA against its CPU twin.
#include <cmath>

#include "catch.h"
#include "graph/nn_check.h"
#include "graph/op_case.h"

namespace xp::graph {
namespace {

using Doubles = std::vector<double>;
constexpr double kEps = 1e-5;

CaseTensor Random(Kind kind, const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  return Given(kind, shape, Values(NumElements(shape), seed, DType::kF32, low, high));
}
CaseTensor Empty(Kind kind, const Shape& shape) { return {kind, shape, {}}; }

// n pixels of c channels, k outputs; what flows in, g, and the norm's parameters.
struct Layer {
  size_t n, c, k;
  Doubles a, w, g, scale, bias;
};

// a as after a ReLU: half of it zero, the rest positive.
Layer LayerOf(size_t n, size_t c, size_t k) {
  auto draw = [](size_t count, uint64_t seed, double low, double high) {
    const auto v = Values(static_cast<int64_t>(count), seed, DType::kBF16, low, high);
    return Doubles(v.begin(), v.end());
  };
  Layer l{n,
          c,
          k,
          draw(n * c, 1, -1, 1),
          draw(k * c, 2, -1, 1),
          draw(n * k, 3, -1, 1),
          draw(k, 4, 0.5, 1.5),
          draw(k, 5, -1, 1)};
  for (double& v : l.a) v = std::max(v, 0.0);
  return l;
}

struct Normed {
  Doubles y, z, mean, variance;
};
Normed Forward(const Layer& l) {
  Normed r{Doubles(l.n * l.k), Doubles(l.n * l.k), Doubles(l.k), Doubles(l.k)};
  for (size_t i = 0; i < l.n; ++i) {
    for (size_t k = 0; k < l.k; ++k) {
      for (size_t c = 0; c < l.c; ++c) r.y[i * l.k + k] += l.a[i * l.c + c] * l.w[k * l.c + c];
      r.mean[k] += r.y[i * l.k + k] / static_cast<double>(l.n);
    }
  }
  for (size_t i = 0; i < l.n * l.k; ++i) {
    const double d = r.y[i] - r.mean[i % l.k];
    r.variance[i % l.k] += d * d / static_cast<double>(l.n);
  }
  for (size_t i = 0; i < l.n * l.k; ++i) {
    const size_t k = i % l.k;
    r.z[i] = l.scale[k] * (r.y[i] - r.mean[k]) / std::sqrt(r.variance[k] + kEps) + l.bias[k];
  }
  return r;
}

double Loss(const Layer& l) {
  const Normed r = Forward(l);
  double sum = 0;
  for (size_t i = 0; i < r.z.size(); ++i) sum += l.g[i] * r.z[i];
  return sum;
}

double Slope(Layer l, Doubles Layer::*what, size_t at) {
  const double step = 1e-5, middle = (l.*what)[at];
  (l.*what)[at] = middle + step;
  const double above = Loss(l);
  (l.*what)[at] = middle - step;
  return (above - Loss(l)) / (2 * step);
}

Shape MapOf(size_t n, size_t channels) {
  return {1, 1, static_cast<int64_t>(n), static_cast<int64_t>(channels)};
}
CaseTensor Vector(const Doubles& v) {
  return Given(Kind::kF32, {static_cast<int64_t>(v.size())}, v);
}

OpCase StatisticsOf(const Layer& l) {
  const auto c = static_cast<int64_t>(l.c), k = static_cast<int64_t>(l.k);
  const CaseTensor row = Empty(Kind::kF32, {k});
  return {OpType::kGramStatistics,
          NormAttrs{static_cast<float>(kEps), 0.1f, false},
          {Given(Kind::kCompute, MapOf(l.n, l.c), l.a), Given(Kind::kCompute, {k, 1, 1, c}, l.w),
           Random(Kind::kF32, {k}, 6), Random(Kind::kF32, {k}, 7, 0.5, 2)},
          {row, row, row, row, Empty(Kind::kF32, {c}), Empty(Kind::kF32, {k, c})}};
}

OpCase GradOf(const Layer& l, const CaseResult& statistics) {
  const auto c = static_cast<int64_t>(l.c), k = static_cast<int64_t>(l.k);
  Doubles dbias(l.k);
  for (size_t i = 0; i < l.g.size(); ++i) dbias[i % l.k] += l.g[i];
  return {OpType::kGramGrad,
          NoAttrs{},
          {Given(Kind::kCompute, MapOf(l.n, l.k), l.g), Given(Kind::kCompute, MapOf(l.n, l.c), l.a),
           Given(Kind::kCompute, {k, 1, 1, c}, l.w), Given(Kind::kF32, {k, c}, statistics[5]),
           Vector(statistics[4]), Vector(dbias), Vector(l.scale), Vector(statistics[0]),
           Vector(statistics[1])},
          {Empty(Kind::kCompute, {k, 1, 1, c}), Empty(Kind::kF32, {k}),
           Empty(Kind::kCompute, {k, 1, 1, c}), Empty(Kind::kCompute, {c, 1, 1, c}),
           Empty(Kind::kF32, {c})}};
}

std::vector<float> Floats(const Doubles& v) { return {v.begin(), v.end()}; }

}  // namespace

TEST_CASE("Gram statistics equal those of the product", "[nn][gram]") {
  const Layer l = LayerOf(210, 6, 20);
  const OpCase c = StatisticsOf(l);
  const CaseResult got = RunCase(*TestBackends()[0], DType::kF32, c);
  const Normed want = Forward(l);
  Doubles invstd, mean, var;
  for (size_t k = 0; k < l.k; ++k) {
    invstd.push_back(1 / std::sqrt(want.variance[k] + kEps));
    const double unbiased = want.variance[k] * 210 / 209;
    mean.push_back(0.9 * c.inputs[2].values[k] + 0.1 * want.mean[k]);
    var.push_back(0.9 * c.inputs[3].values[k] + 0.1 * unbiased);
  }
  CheckClose("mean", Floats(got[0]), want.mean, 1e-6);
  CheckClose("invstd", Floats(got[1]), invstd, 1e-6);
  CheckClose("running mean", Floats(got[2]), mean, 1e-6);
  CheckClose("running variance", Floats(got[3]), var, 1e-6);
}

TEST_CASE("gradients by Gram statistics equal finite differences", "[nn][gram]") {
  const Layer l = LayerOf(60, 5, 12);
  Backend& cpu = *TestBackends()[0];
  const CaseResult statistics = RunCase(cpu, DType::kF32, StatisticsOf(l));
  const CaseResult got = RunCase(cpu, DType::kF32, GradOf(l, statistics));
  Doubles dw, dscale, da, joined(l.a.size());
  for (size_t i = 0; i < l.w.size(); ++i) dw.push_back(Slope(l, &Layer::w, i));
  for (size_t i = 0; i < l.k; ++i) dscale.push_back(Slope(l, &Layer::scale, i));
  for (size_t i = 0; i < l.a.size(); ++i) da.push_back(Slope(l, &Layer::a, i));
  for (size_t i = 0; i < l.n; ++i) {
    for (size_t c = 0; c < l.c; ++c) {
      double& sum = joined[i * l.c + c];
      sum = got[4][c];
      for (size_t k = 0; k < l.k; ++k) sum += l.g[i * l.k + k] * got[2][k * l.c + c];
      for (size_t j = 0; j < l.c; ++j) sum += l.a[i * l.c + j] * got[3][c * l.c + j];
    }
  }
  CheckClose("dw", Floats(got[0]), dw, 1e-5);
  CheckClose("dscale", Floats(got[1]), dscale, 1e-5);
  CheckClose("da", Floats(joined), da, 1e-5);
}

TEST_CASE("Gram kernels agree with their twins", "[nn][gram]") {
  Backend& cpu = *TestBackends()[0];
  for (const auto& [n, c, k] : {std::array<size_t, 3>{9, 3, 8},
                                {210, 5, 12},
                                {300, 16, 64},
                                {1517, 64, 256},
                                {500, 130, 261}}) {
    INFO(n << " rows, " << c << " > " << k);
    const Layer l = LayerOf(n, c, k);
    const OpCase statistics = StatisticsOf(l);
    CompareBackends(statistics, {}, 5e-5);
    CompareBackends(GradOf(l, RunCase(cpu, DType::kF32, statistics)), {}, 2e-4);
  }
}

}  // namespace xp::graph
