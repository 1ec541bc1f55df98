// bf16 on the CPU: conversions against the plain ones, maps that are written past the caches, and a
// network that trains as in fp32.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "catch.h"
#include "graph/nn_check.h"
#include "graph/op_case.h"
#include "graph/residual_net.h"
#include "src/graph/cpu/narrow.h"
#include "src/graph/half.h"

namespace xp::graph {
namespace {

CaseTensor Compute(const Shape& shape, uint64_t seed) {
  return Given(Kind::kCompute, shape, Values(NumElements(shape), seed, DType::kF32));
}
CaseTensor PerChannel(const Shape& shape, uint64_t seed, double low, double high) {
  return Given(Kind::kF32, {shape.back()}, Values(shape.back(), seed, DType::kF32, low, high));
}
CaseTensor Empty(Kind kind, const Shape& shape) { return {kind, shape, {}}; }

}  // namespace

TEST_CASE("vectors of bf16 are converted as single values are", "[nn]") {
  std::vector<float> floats;
  for (uint32_t top = 0; top < 0x10000; ++top) {  // every sign, exponent and kept bit
    for (uint32_t rest : {0u, 0x7fffu, 0x8000u, 0x8001u}) {
      floats.push_back(std::bit_cast<float>((top << 16) | rest));
    }
  }
  for (size_t begin : {0, 1, 7, 13}) {
    const size_t n = floats.size() - begin;
    std::vector<uint16_t> narrow(n);
    cpu::Narrow(DType::kBF16, floats.data() + begin, static_cast<int64_t>(n), narrow.data());
    std::vector<float> wide(n);
    cpu::Widen(DType::kBF16, narrow.data(), static_cast<int64_t>(n), wide.data());
    size_t wrong = 0;
    for (size_t i = 0; i < n; ++i) {
      const uint16_t want = FloatToBf16(floats[begin + i]);
      wrong += narrow[i] != want;
      wrong += std::bit_cast<uint32_t>(wide[i]) != std::bit_cast<uint32_t>(Bf16ToFloat(want));
    }
    CHECK(wrong == 0);
  }
  for (int64_t n = 0; n < 40; ++n) {  // nothing is written behind the last one
    std::vector<float> copy(64, -1.0f);
    std::vector<uint16_t> narrow(64, 7);
    cpu::StreamOut(floats.data(), n, copy.data() + 1);
    cpu::Narrow(DType::kBF16, floats.data(), n, narrow.data());
    for (int64_t i = n; i < 50; ++i) {
      CHECK(copy[static_cast<size_t>(i) + 1] == -1.0f);
      CHECK(narrow[static_cast<size_t>(i)] == 7);
    }
    CHECK(std::equal(floats.begin(), floats.begin() + n, copy.begin() + 1));
  }
}

TEST_CASE("maps that are written past the caches are those that aren't", "[nn]") {
  const Shape s{5, 97, 131, 36};  // 9 MB in fp32, which streams; 16-bit results don't
  const Shape mask{(NumElements(s) + 7) / 8};
  const CaseTensor scale = PerChannel(s, 2, 0.5, 1.5), bias = PerChannel(s, 3, -1, 1);
  const CaseTensor mean = PerChannel(s, 4, -1, 1), var = PerChannel(s, 5, 0.5, 2);
  const CaseTensor channel = Empty(Kind::kF32, {s.back()}), map = Empty(Kind::kCompute, s);
  std::vector<float> bits = Values(mask[0], 9, DType::kF32, 0, 256);
  for (float& b : bits) b = std::floor(b);
  CompareBackends({OpType::kAdd, ReluAttrs{true}, {Compute(s, 1), Compute(s, 6)}, {map}});
  CompareBackends({OpType::kBatchNorm,
                   NormAttrs{1e-3f, 0.1f, true},
                   {Compute(s, 1), scale, bias, mean, var, Compute(s, 6)},
                   {map, channel, channel, {Kind::kAbsent, {}, {}}, channel, channel}},
                  {}, 3e-5);
  CompareBackends({OpType::kBatchNormGrad,
                   NormAttrs{1e-3f, 0.1f, true},
                   {Compute(s, 8), Compute(s, 1), scale, mean, var, Given(Kind::kU8, mask, bits)},
                   {map, channel, channel, map}},
                  {}, 5e-5);
}

// Sums by hand, of values that bf16 holds: x [n, h, w, c], dy [n, p, q, k] -> dw [k, r, r, c].
std::vector<double> WeightGradOf(const Shape& x, const std::vector<double>& values, const Shape& y,
                                 const std::vector<double>& dy, const ConvAttrs& attrs, int64_t r) {
  const int64_t c = x[3], k = y[3];
  std::vector<double> dw(static_cast<size_t>(k * r * r * c));
  for (int64_t pixel = 0; pixel < y[0] * y[1] * y[2]; ++pixel) {
    const int64_t q = pixel % y[2], p = pixel / y[2] % y[1], n = pixel / y[2] / y[1];
    for (int64_t tap = 0; tap < r * r; ++tap) {
      const int64_t i = p * attrs.stride[0] - attrs.pad[0] + tap / r * attrs.dilation[0];
      const int64_t j = q * attrs.stride[1] - attrs.pad[1] + tap % r * attrs.dilation[1];
      if (i < 0 || i >= x[1] || j < 0 || j >= x[2]) continue;
      const double* from = &values[static_cast<size_t>(((n * x[1] + i) * x[2] + j) * c)];
      const double* g = &dy[static_cast<size_t>(pixel * k)];
      for (int64_t o = 0; o < k; ++o) {
        for (int64_t f = 0; f < c; ++f)
          dw[static_cast<size_t>((o * r * r + tap) * c + f)] += g[o] * from[f];
      }
    }
  }
  return dw;
}

TEST_CASE("weight gradients in bf16 on the CPU, as products and as convolutions", "[nn]") {
  struct Case {
    Shape x;
    int64_t k, r;
    ConvAttrs attrs;
  };
  const auto attrs = [](int stride_y, int stride_x, int pad, int dilation) {
    return ConvAttrs{{stride_y, stride_x}, {pad, pad}, {dilation, dilation}};
  };
  for (const Case& t : {Case{{2, 9, 11, 32}, 48, 3, attrs(2, 2, 1, 1)},
                        Case{{1, 7, 7, 64}, 32, 3, attrs(1, 1, 1, 1)},
                        Case{{3, 8, 5, 16}, 24, 1, attrs(2, 2, 0, 1)},
                        Case{{3, 8, 5, 16}, 24, 1, attrs(1, 1, 0, 1)},
                        Case{{2, 9, 12, 16}, 8, 1, attrs(2, 3, 0, 1)},
                        Case{{2, 13, 10, 16}, 20, 5, attrs(3, 1, 2, 1)},
                        Case{{2, 12, 8, 32}, 16, 3, attrs(1, 1, 2, 2)},
                        Case{{1, 6, 40, 16}, 16, 3, attrs(1, 1, 1, 1)},
                        Case{{2, 9, 11, 20}, 12, 3, attrs(2, 2, 1, 1)},
                        Case{{1, 1, 1, 16}, 16, 3, attrs(2, 2, 1, 1)}}) {
    const auto size = [&](size_t axis) {
      const ConvAttrs& a = t.attrs;
      return (t.x[1 + axis] + 2 * a.pad[axis] - a.dilation[axis] * (t.r - 1) - 1) / a.stride[axis] +
             1;
    };
    const Shape y{t.x[0], size(0), size(1), t.k};
    INFO(ShapeText(t.x) << " to " << ShapeText(y) << ", kernel " << t.r);
    CaseTensor x = Compute(t.x, 1), dy = Compute(y, 2);
    for (CaseTensor* v : {&x, &dy}) {
      for (double& e : v->values)
        e = static_cast<double>(Bf16ToFloat(FloatToBf16(static_cast<float>(e))));
    }
    const OpCase c{
        OpType::kConv2dWgrad, t.attrs, {x, dy}, {Empty(Kind::kCompute, {t.k, t.r, t.r, t.x[3]})}};
    const CaseResult got = RunCase(*TestBackends()[0], DType::kBF16, c);
    CheckClose("dw", {got[0].begin(), got[0].end()},
               WeightGradOf(t.x, x.values, y, dy.values, t.attrs, t.r), 4e-3);
    CHECK(RunCase(*TestBackends()[0], DType::kBF16, c) == got);
  }
}

TEST_CASE("a network trains in bf16 on the CPU as in fp32, over 50 steps, twice the same bits",
          "[nn]") {
  Backend& cpu = *TestBackends()[0];
  for (const bool squeeze : {false, true}) {
    const ResidualNetOptions options{.pool = true, .squeeze = squeeze};
    const StepPasses passes = {.sums = true, .pairs = true};
    const Trained wide = TrainResidualNet(cpu, DType::kF32, passes, 50, options);
    const Trained narrow = TrainResidualNet(cpu, DType::kBF16, passes, 50, options);
    const Trained again = TrainResidualNet(cpu, DType::kBF16, passes, 50, options);
    CHECK(narrow.losses == again.losses);
    CHECK(narrow.params == again.params);
    CHECK(narrow.states == again.states);
    CHECK(narrow.params != wide.params);  // it isn't fp32 under another name
    REQUIRE(narrow.losses.size() == wide.losses.size());
    CHECK(wide.losses.back() < 0.5f * wide.losses.front());
    for (size_t i = 0; i < wide.losses.size(); ++i) {
      INFO("step " << i << ": fp32 " << wide.losses[i] << ", bf16 " << narrow.losses[i]);
      CHECK(std::fabs(narrow.losses[i] - wide.losses[i]) < 0.03f * wide.losses.front());
    }
  }
}

}  // namespace xp::graph
