// Every layer's operation on shapes that are awkward for a GPU kernel (channel counts that eight
// doesn't divide, single pixels, odd sizes, many rows), CUDA against its CPU twin in all types, and
// each backend against itself: three runs, the same bits.
#include <cmath>

#include "catch.h"
#include "exp/graph/builder.h"
#include "graph/nn_check.h"
#include "graph/op_case.h"

namespace xp::graph {
namespace {

const std::vector<Shape> kShapes = {
    {1, 1, 1, 1},   {2, 7, 9, 1},   {1, 1, 1, 3},    {2, 7, 9, 3},    {1, 5, 3, 5},
    {3, 41, 37, 5}, {1, 1, 1, 64},  {2, 7, 9, 64},   {3, 41, 37, 64}, {2, 3, 5, 255},
    {1, 1, 2, 256}, {2, 9, 7, 256}, {1, 2, 3, 2048}, {2, 5, 5, 96},
};

CaseTensor Random(Kind kind, const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  return Given(kind, shape, Values(NumElements(shape), seed, DType::kF32, low, high));
}
CaseTensor Compute(const Shape& shape, uint64_t seed) {
  return Random(Kind::kCompute, shape, seed);
}
CaseTensor PerChannel(const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  return Random(Kind::kF32, {shape.back()}, seed, low, high);
}
CaseTensor Bytes(const Shape& shape, uint64_t seed, int below) {
  std::vector<float> v = Values(NumElements(shape), seed, DType::kF32, 0, below);
  for (float& x : v) x = std::floor(x);
  return Given(Kind::kU8, shape, v);
}
CaseTensor Empty(Kind kind, const Shape& shape) { return {kind, shape, {}}; }
CaseTensor Absent() { return {Kind::kAbsent, {}, {}}; }
Shape MaskShape(const Shape& s) { return {(NumElements(s) + 7) / 8}; }

void CheckTwins(const OpCase& c, const std::vector<size_t>& exact = {}, double tolerance = 1e-5) {
  INFO(OpName(c.type) << " " << ShapeText(c.inputs[0].shape));
  RunCase(*TestBackends()[0], DType::kF32, c);
  CompareBackends(c, exact, tolerance);
}

}  // namespace

TEST_CASE("element-wise kernels agree with their twins on every length", "[nn]") {
  for (int64_t n : {1, 7, 8, 9, 255, 4096, 4099, 100003}) {
    const Shape s{n};
    for (size_t inputs : {2, 3, 5}) {
      for (bool relu : {false, true}) {
        OpCase add{OpType::kAdd, ReluAttrs{relu}, {}, {Empty(Kind::kCompute, s)}};
        for (size_t i = 0; i < inputs; ++i) add.inputs.push_back(Compute(s, i));
        CheckTwins(add);
      }
    }
    CheckTwins({OpType::kRelu, NoAttrs{}, {Compute(s, 1)}, {Empty(Kind::kCompute, s)}}, {0});
    CheckTwins(
        {OpType::kReluGrad, NoAttrs{}, {Compute(s, 1), Compute(s, 2)}, {Empty(Kind::kCompute, s)}},
        {0});
    CheckTwins({OpType::kSigmoid,
                NoAttrs{},
                {Random(Kind::kCompute, s, 1, -30, 30)},
                {Empty(Kind::kCompute, s)}});
    CheckTwins({OpType::kSigmoidGrad,
                NoAttrs{},
                {Compute(s, 1), Random(Kind::kCompute, s, 2, 0, 1)},
                {Empty(Kind::kCompute, s)}});
    CheckTwins({OpType::kCast, NoAttrs{}, {Compute(s, 1)}, {Empty(Kind::kF32, s)}}, {0});
    CheckTwins({OpType::kCast, NoAttrs{}, {Random(Kind::kF32, s, 1)}, {Empty(Kind::kCompute, s)}});
  }
}

TEST_CASE("normalisation kernels agree with their twins", "[nn]") {
  for (const Shape& s : kShapes) {
    const CaseTensor scale = PerChannel(s, 2, 0.5, 1.5), bias = PerChannel(s, 3);
    const CaseTensor mean = PerChannel(s, 4), var = PerChannel(s, 5, 0.5, 2);
    const CaseTensor channel = Empty(Kind::kF32, {s.back()}), map = Empty(Kind::kCompute, s);
    for (bool residual : {false, true}) {
      const CaseTensor add = residual ? Compute(s, 6) : Absent();
      // The running statistics are written to outputs of their own here, so that runs repeat.
      CheckTwins({OpType::kBatchNorm,
                  NormAttrs{1e-3f, 0.1f, true},
                  {Compute(s, 1), scale, bias, mean, var, add},
                  {map, channel, channel, Absent(), channel, channel}},
                 {}, 3e-5);
      CheckTwins({OpType::kAffine,
                  NormAttrs{1e-3f, 0.1f, true},
                  {Compute(s, 1), scale, bias, mean, var, add},
                  {map, Absent()}});
      const CaseTensor mask = residual ? Bytes(MaskShape(s), 7, 256) : Absent();
      const CaseTensor dresidual = residual ? map : Absent();
      CheckTwins({OpType::kAffineGrad,
                  NormAttrs{1e-3f, 0.1f, residual},
                  {Compute(s, 8), Compute(s, 1), scale, mean, var, mask},
                  {map, channel, channel, dresidual}},
                 {}, 3e-5);
      CheckTwins({OpType::kAffineGrad,
                  NormAttrs{1e-3f, 0.1f, residual},
                  {Compute(s, 8), Absent(), scale, mean, var, mask},
                  {map, Absent(), Absent(), dresidual}});
      // With one value a channel dx is 0: rounding is all there is to compare.
      if (NumElements(s) / s.back() < 4) continue;
      CheckTwins({OpType::kBatchNormGrad,
                  NormAttrs{1e-3f, 0.1f, residual},
                  {Compute(s, 8), Compute(s, 1), scale, mean, var, mask},
                  {map, channel, channel, dresidual}},
                 {}, 5e-5);
    }
  }
}

TEST_CASE("sums over rows agree with their twins, over many rows too", "[nn]") {
  std::vector<Shape> shapes = kShapes;
  shapes.insert(shapes.end(), {{70000, 8}, {33333, 3}, {5000, 24}, {20000, 72}, {4097, 2056}});
  for (const Shape& s : shapes) {
    CheckTwins({OpType::kBiasGrad, NoAttrs{}, {Compute(s, 1)}, {Empty(Kind::kF32, {s.back()})}});
  }
}

TEST_CASE("batch statistics agree with their twins over many rows", "[nn]") {
  for (const Shape& s : {Shape{60000, 8}, Shape{30011, 5}, Shape{9001, 136}, Shape{70001, 64}}) {
    const CaseTensor channel = Empty(Kind::kF32, {s.back()}), map = Empty(Kind::kCompute, s);
    CheckTwins({OpType::kBatchNorm,
                NormAttrs{},
                {Random(Kind::kCompute, s, 1, 3, 5), PerChannel(s, 2), PerChannel(s, 3),
                 PerChannel(s, 4), PerChannel(s, 5, 0.5, 2), Absent()},
                {map, channel, channel, Absent(), channel, channel}},
               {}, 3e-5);
  }
}

TEST_CASE("pooling kernels agree with their twins", "[nn]") {
  for (const Shape& s : kShapes) {
    for (const PoolAttrs& attrs : {PoolAttrs{3, 2, 1, false}, PoolAttrs{2, 2, 0, true},
                                   PoolAttrs{3, 1, 1, false}, PoolAttrs{1, 2, 0, false}}) {
      const Shape out{s[0], PoolOutputSize(static_cast<int>(s[1]), attrs),
                      PoolOutputSize(static_cast<int>(s[2]), attrs), s[3]};
      if (out[1] < 1 || out[2] < 1) continue;
      CheckTwins({OpType::kMaxPool,
                  attrs,
                  {Compute(s, 1)},
                  {Empty(Kind::kCompute, out), Empty(Kind::kU8, out)}},
                 {0, 1});
      CheckTwins({OpType::kMaxPoolGrad,
                  attrs,
                  {Compute(out, 1), Bytes(out, 2, attrs.kernel * attrs.kernel)},
                  {Empty(Kind::kCompute, s)}});
    }
    const Shape squeezed{s[0], s[3]};
    CheckTwins(
        {OpType::kGlobalAvgPool, NoAttrs{}, {Compute(s, 1)}, {Empty(Kind::kCompute, squeezed)}});
    CheckTwins({OpType::kGlobalAvgPoolGrad,
                NoAttrs{},
                {Compute(squeezed, 1)},
                {Empty(Kind::kCompute, s)}});
    CheckTwins({OpType::kScaleChannels,
                NoAttrs{},
                {Compute(s, 1), Compute(squeezed, 2)},
                {Empty(Kind::kCompute, s)}});
    CheckTwins({OpType::kScaleChannelsGrad,
                NoAttrs{},
                {Compute(s, 1), Compute(s, 2), Compute(squeezed, 3)},
                {Empty(Kind::kCompute, s), Empty(Kind::kCompute, squeezed)}});
  }
}

TEST_CASE("resampling kernels agree with their twins", "[nn]") {
  for (const Shape& s : kShapes) {
    for (const auto& [h, w] : {std::pair{s[1] * 2, s[2] * 2}, std::pair{s[1] * 2 + 1, s[2] + 1}}) {
      const Shape big{s[0], h, w, s[3]};
      CheckTwins({OpType::kUpsampleAdd,
                  NoAttrs{},
                  {Compute(s, 1), Compute(big, 2)},
                  {Empty(Kind::kCompute, big)}});
      CheckTwins({OpType::kUpsampleGrad, NoAttrs{}, {Compute(big, 1)}, {Empty(Kind::kCompute, s)}});
    }
    const Shape half{s[0], (s[1] + 1) / 2, (s[2] + 1) / 2, s[3]};
    CheckTwins({OpType::kSubsample, NoAttrs{}, {Compute(s, 1)}, {Empty(Kind::kCompute, half)}},
               {0});
    CheckTwins({OpType::kSubsampleGrad, NoAttrs{}, {Compute(half, 1)}, {Empty(Kind::kCompute, s)}},
               {0});
  }
}

TEST_CASE("L2 normalisation agrees with its twin, pixels of zeros included", "[nn]") {
  for (const Shape& s : kShapes) {
    CaseTensor x = Compute(s, 1);
    if (NumElements(s) > s.back()) std::fill_n(x.values.begin(), s.back(), 0.0);
    CheckTwins(
        {OpType::kL2Norm, NoAttrs{}, {x, PerChannel(s, 2, 10, 20)}, {Empty(Kind::kCompute, s)}});
    if (x.values[0] == 0) continue;  // there the gradient is 1e12 times dy
    if (s.back() == 1) continue;     // there it is 0, a difference of terms that only nearly cancel
    CheckTwins({OpType::kL2NormGrad,
                NoAttrs{},
                {Compute(s, 3), x, PerChannel(s, 2, 10, 20)},
                {Empty(Kind::kCompute, s), Empty(Kind::kF32, {s.back()})}},
               {}, 3e-5);
  }
}

TEST_CASE("image normalisation agrees with its twin", "[nn]") {
  for (const auto& [n, h, w] : {std::tuple{1, 1, 1}, std::tuple{2, 7, 5}, std::tuple{3, 32, 64}}) {
    const Shape s{n, h, w, 3};
    std::vector<int32_t> sizes;
    for (int i = 0; i < n; ++i)
      sizes.insert(sizes.end(), {std::max(1, h - i), std::max(1, w - 2 * i)});
    CheckTwins({OpType::kImageNormalize,
                NormalizeAttrs{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
                {Bytes(s, 1, 256), Given(Kind::kI32, {n, 2}, sizes)},
                {Empty(Kind::kCompute, s)}});
  }
}

TEST_CASE("cross-entropy agrees with its twin", "[nn]") {
  for (const auto& [rows, classes] :
       {std::pair{1, 1}, std::pair{3, 7}, std::pair{256, 1000}, std::pair{700, 257}}) {
    for (float smoothing : {0.0f, 0.1f}) {
      const Shape s{rows, classes};
      std::vector<int32_t> labels;
      for (int i = 0; i < rows; ++i) labels.push_back(i % 5 == 4 ? -1 : i * 7 % classes);
      CheckTwins({OpType::kSoftmaxCrossEntropy,
                  CrossEntropyAttrs{smoothing},
                  {Random(Kind::kCompute, s, 1, -8, 8), Given(Kind::kI32, {rows}, labels),
                   Given(Kind::kF32, {1}, std::vector<float>{64})},
                  {Empty(Kind::kF32, {1}), Empty(Kind::kCompute, s), Empty(Kind::kI32, {2})}});
    }
  }
}

}  // namespace xp::graph
