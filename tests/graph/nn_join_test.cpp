// The parts that step_passes.h puts batch norms together from: against the formulas in double, and
// CUDA against its CPU twin on awkward shapes.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "catch.h"
#include "graph/nn_check.h"
#include "graph/op_case.h"

namespace xp::graph {
namespace {

const std::vector<Shape> kShapes = {
    {2, 7, 9, 1},   {1, 5, 3, 5},    {3, 41, 37, 5}, {2, 7, 9, 64}, {3, 41, 37, 64}, {2, 3, 5, 255},
    {2, 9, 7, 256}, {1, 2, 3, 2048}, {2, 5, 5, 96},  {40000, 8},    {4097, 72}};

CaseTensor Random(Kind kind, const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  return Given(kind, shape, Values(NumElements(shape), seed, DType::kF32, low, high));
}
CaseTensor PerChannel(const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  return Random(Kind::kF32, {shape.back()}, seed, low, high);
}
CaseTensor Mask(const Shape& shape, uint64_t seed) {
  const Shape s{(NumElements(shape) + 7) / 8};
  std::vector<float> v = Values(NumElements(s), seed, DType::kF32, 0, 256);
  for (float& x : v) x = std::floor(x);
  return Given(Kind::kU8, s, v);
}
CaseTensor Empty(Kind kind, const Shape& shape) { return {kind, shape, {}}; }
CaseTensor Absent() { return {Kind::kAbsent, {}, {}}; }
CaseTensor Map(const Shape& s, uint64_t seed) { return Random(Kind::kCompute, s, seed); }
// Sixteenths: three of them add up exactly in every type.
CaseTensor Sixteenths(const Shape& s, uint64_t seed) {
  CaseTensor t = Map(s, seed);
  for (double& v : t.values) v = std::round(v * 16) / 16;
  return t;
}

// Of a map the even rows and columns.
Shape HalfOf(const Shape& s) { return {s[0], (s[1] + 1) / 2, (s[2] + 1) / 2, s[3]}; }
// The map that they stand for.
std::vector<double> WholeOf(const std::vector<double>& half, const Shape& s) {
  std::vector<double> whole(static_cast<size_t>(NumElements(s)));
  size_t from = 0;
  for (int64_t row = 0; row < s[0] * s[1]; ++row) {
    if (row % s[1] % 2 != 0) continue;
    for (int64_t x = 0; x < s[2]; x += 2) {
      for (int64_t c = 0; c < s[3]; ++c) {
        whole[static_cast<size_t>((row * s[2] + x) * s[3] + c)] = half[from++];
      }
    }
  }
  return whole;
}

struct SumsCase {
  bool mask, a, b;
  int8_t dys;
  bool half = false;  // the last of the dys; for maps only
};
const SumsCase kSumsCases[] = {
    {true, true, false, 2},       {false, true, false, 3},       {true, true, true, 1},
    {true, true, true, 2},        {false, true, true, 3},        {true, false, false, 2},
    {true, false, true, 2},       {false, false, false, 1},      {true, true, false, 2, true},
    {false, true, true, 2, true}, {true, false, false, 3, true}, {false, false, true, 3, true}};

OpCase SumsOf(const Shape& s, const SumsCase& t) {
  OpCase c{OpType::kNormGradSums, NoAttrs{}, {}, {Empty(Kind::kCompute, s)}};
  c.inputs.push_back(t.mask ? Mask(s, 1) : Absent());
  for (int i = 0; i < 3; ++i) {
    const Shape& shape = t.half && i == t.dys - 1 ? HalfOf(s) : s;
    c.inputs.push_back(i < t.dys ? Sixteenths(shape, 2 + static_cast<uint64_t>(i)) : Absent());
  }
  const CaseTensor channel = Empty(Kind::kF32, {s.back()});
  for (uint64_t branch = 0; branch < 2; ++branch) {
    const bool there = branch == 0 ? t.a : t.b;
    c.inputs.push_back(there ? Map(s, 10 + branch) : Absent());
    c.inputs.push_back(there ? PerChannel(s, 20 + branch, 0.5, 1.5) : Absent());
    c.inputs.push_back(there ? PerChannel(s, 30 + branch) : Absent());
    c.inputs.push_back(there ? PerChannel(s, 40 + branch, 0.5, 1.5) : Absent());
    c.outputs.push_back(there || branch == 0 ? channel : Absent());
    c.outputs.push_back(there ? channel : Absent());
    c.outputs.push_back(there ? Empty(Kind::kF32, {3, s.back()}) : Absent());
  }
  return c;
}

OpCase JoinOf(const Shape& s, bool pair, bool residual, bool gate = false) {
  OpCase c{
      OpType::kNormJoin, NormAttrs{1e-5f, 0.1f, true}, {}, {Empty(Kind::kCompute, s), Absent()}};
  for (uint64_t branch = 0; branch < 2; ++branch) {
    const bool there = branch == 0 || pair;
    c.inputs.push_back(there ? Map(s, 1 + branch) : Absent());
    for (uint64_t i = 0; i < 4; ++i) {
      c.inputs.push_back(there ? PerChannel(s, 10 + 4 * branch + i, 0.25, 1.5) : Absent());
    }
  }
  c.inputs.push_back(residual ? Map(s, 3) : Absent());
  if (gate) c.inputs.push_back(Random(Kind::kCompute, {s[0], s.back()}, 9, 0, 1));
  return c;
}

}  // namespace

TEST_CASE("the sums of joined gradients equal the formulas in double", "[nn]") {
  const Shape s{3, 5, 7, 10};
  const auto n = static_cast<size_t>(NumElements(s)), channels = static_cast<size_t>(s.back());
  const auto rows = static_cast<double>(s[0] * s[1] * s[2]);
  for (const SumsCase& t : kSumsCases) {
    const OpCase c = SumsOf(s, t);
    const CaseResult got = RunCase(*TestBackends()[0], DType::kF32, c);
    std::vector<double> g(n), dbias(channels);
    for (int k = 0; k < t.dys; ++k) {
      std::vector<double> dy = c.inputs[1 + static_cast<size_t>(k)].values;
      if (t.half && k == t.dys - 1) dy = WholeOf(dy, s);
      for (size_t i = 0; i < n; ++i) g[i] += dy[i];
    }
    for (size_t i = 0; i < n; ++i) {
      const auto byte = t.mask ? static_cast<unsigned>(c.inputs[0].values[i / 8]) : 255u;
      if (((byte >> (i % 8)) & 1) == 0) g[i] = 0;
      dbias[i % channels] += g[i];
    }
    auto close = [&](const char* what, const std::vector<double>& values,
                     const std::vector<double>& want) {
      CheckClose(what, {values.begin(), values.end()}, want, 4e-6);
    };
    close("g", got[0], g);
    close("dbias", got[1], dbias);
    for (size_t branch = 0; branch < 2; ++branch) {
      if (!(branch == 0 ? t.a : t.b)) continue;
      const size_t in = 4 + 4 * branch, out = 1 + 3 * branch;
      const auto &x = c.inputs[in].values, &scale = c.inputs[in + 1].values,
                 &mean = c.inputs[in + 2].values, &invstd = c.inputs[in + 3].values;
      std::vector<double> dscale(channels), dx(n), joined(n);
      for (size_t i = 0; i < n; ++i) {
        const size_t k = i % channels;
        dscale[k] += g[i] * (x[i] - mean[k]) * invstd[k];
      }
      for (size_t i = 0; i < n; ++i) {
        const size_t k = i % channels;
        const double hat = (x[i] - mean[k]) * invstd[k];
        dx[i] = scale[k] * invstd[k] * (g[i] - dbias[k] / rows - hat * dscale[k] / rows);
        const auto& f = got[out + 2];
        joined[i] = f[k] * g[i] + (f[channels + k] * x[i] + f[2 * channels + k]);
      }
      close("dscale", got[out + 1], dscale);
      close("dx by the factors", joined, dx);
    }
  }
}

TEST_CASE("joined batch norm kernels agree with their twins", "[nn]") {
  for (const Shape& s : kShapes) {
    INFO(ShapeText(s));
    for (const SumsCase& t : kSumsCases) {
      if (t.half && s.size() != 4) continue;
      const OpCase c = SumsOf(s, t);
      RunCase(*TestBackends()[0], DType::kF32, c);
      CompareBackends(c, {0}, 5e-5);
    }
    for (const bool pair : {false, true}) {
      for (const bool residual : {false, true}) {
        CompareBackends(JoinOf(s, pair, residual));
        if (s.size() == 4) CompareBackends(JoinOf(s, pair, residual, true));
      }
    }
    CompareBackends({OpType::kNormGradApply,
                     NoAttrs{},
                     {Map(s, 1), Map(s, 2), Random(Kind::kF32, {3, s.back()}, 3)},
                     {Empty(Kind::kCompute, s)}});
  }
}

TEST_CASE("batch norm and max pool at once agree with their twins", "[nn]") {
  for (const Shape& s : {Shape{2, 7, 9, 8}, Shape{1, 1, 1, 16}, Shape{3, 8, 10, 64},
                         Shape{2, 33, 20, 72}, Shape{1, 64, 48, 8}}) {
    INFO(ShapeText(s));
    const Shape out{s[0], (s[1] + 1) / 2, (s[2] + 1) / 2, s[3]};
    const PoolAttrs attrs{3, 2, 1, false};
    // Eighths: ties within a window, and the same values in every type.
    CaseTensor x = Map(s, 1);
    for (double& v : x.values) v = std::round(v * 8) / 8;
    const CaseTensor ones =
        Given(Kind::kF32, {s.back()}, std::vector<float>(static_cast<size_t>(s.back()), 1));
    const CaseTensor zeros =
        Given(Kind::kF32, {s.back()}, std::vector<float>(static_cast<size_t>(s.back()), 0));
    const OpCase forward{OpType::kNormPool,
                         attrs,
                         {x, ones, zeros, zeros, ones},
                         {Empty(Kind::kCompute, out), Empty(Kind::kU8, out)}};
    const CaseResult pooled = RunCase(*TestBackends()[0], DType::kF32, forward);
    CompareBackends(forward, {0, 1});
    CHECK(std::count(pooled[1].begin(), pooled[1].end(), 255) > 0);
    const CaseTensor argmax = Given(Kind::kU8, out, pooled[1]);
    const CaseTensor channel = Empty(Kind::kF32, {s.back()});
    CompareBackends({OpType::kNormPoolSums,
                     attrs,
                     {Sixteenths(out, 2), argmax, Map(s, 3), PerChannel(s, 4, 0.5, 1.5),
                      PerChannel(s, 5), PerChannel(s, 6, 0.5, 1.5)},
                     {channel, channel, Empty(Kind::kF32, {3, s.back()})}},
                    {}, 5e-5);
    CompareBackends({OpType::kNormPoolGrad,
                     attrs,
                     {Sixteenths(out, 2), argmax, Map(s, 3), Random(Kind::kF32, {3, s.back()}, 7)},
                     {Empty(Kind::kCompute, s)}},
                    {}, 5e-5);
  }
}

TEST_CASE("squeeze kernels agree with their twins", "[nn]") {
  for (const Shape& s : {Shape{2, 7, 9, 8}, Shape{5, 1, 1, 16}, Shape{3, 40, 37, 64},
                         Shape{2, 3, 3, 136}, Shape{70, 7, 7, 256}}) {
    INFO(ShapeText(s));
    const Shape image{s[0], s[3]};
    const CaseTensor channel = Empty(Kind::kF32, {s[3]}), per_image = Empty(Kind::kF32, image);
    const CaseTensor scale = PerChannel(s, 4, 0.5, 1.5), bias = PerChannel(s, 5);
    const CaseTensor mean = PerChannel(s, 6), invstd = PerChannel(s, 7, 0.5, 1.5);
    CompareBackends({OpType::kSqueezeStatistics,
                     NormAttrs{},
                     {Random(Kind::kCompute, s, 1, 1, 3), scale, bias, mean, invstd},
                     {channel, channel, channel, channel, per_image, Empty(Kind::kCompute, image)}},
                    {}, 5e-5);
    for (int dys = 1; dys <= 3; ++dys) {
      OpCase sums{OpType::kSqueezeSums, NoAttrs{}, {dys > 1 ? Mask(s, 1) : Absent()}, {}};
      for (int i = 0; i < 3; ++i) {
        sums.inputs.push_back(i < dys ? Sixteenths(s, 2 + static_cast<uint64_t>(i)) : Absent());
      }
      for (const CaseTensor& t : {Map(s, 8), scale, bias, mean, invstd}) sums.inputs.push_back(t);
      sums.outputs = {dys > 1 ? Empty(Kind::kCompute, s) : Absent(),
                      Empty(Kind::kF32, {2, s[0], s[3]}), Empty(Kind::kCompute, image)};
      CompareBackends(sums, {0}, 5e-5);
    }
    CompareBackends(
        {OpType::kSqueezeFactors,
         NoAttrs{},
         {Random(Kind::kF32, {2, s[0], s[3]}, 1), Random(Kind::kCompute, image, 2, 0, 1),
          Map(image, 3), Random(Kind::kF32, image, 10), scale, mean, invstd, Map(s, 11)},
         {channel, channel, per_image, per_image, channel}},
        {}, 5e-5);
    CompareBackends({OpType::kSqueezeApply,
                     NoAttrs{},
                     {Map(s, 1), Map(s, 2), Random(Kind::kF32, image, 3),
                      Random(Kind::kF32, image, 4), Random(Kind::kF32, {s[3]}, 5)},
                     {Empty(Kind::kCompute, s)}});
  }
}

TEST_CASE("a data gradient joined with others agrees with its twin", "[nn]") {
  struct Join {
    Shape map;  // [N, H, W, depth]
    int64_t columns;
    bool mask, second, half = false;  // half: the last
  };
  std::unique_ptr<Backend> tf32;
  if (TestBackends().back()->is_cuda()) tf32 = CreateCudaBackend({.tf32 = true});
  for (const Join& t :
       {Join{{1, 1, 3, 64}, 128, true, false}, Join{{2, 9, 11, 64}, 256, true, true},
        Join{{1, 16, 8, 128}, 128, false, false}, Join{{3, 40, 37, 96}, 384, true, false},
        Join{{2, 9, 11, 64}, 256, true, true, true}, Join{{3, 40, 37, 96}, 384, true, false, true},
        Join{{1, 1, 3, 64}, 128, false, false, true}}) {
    INFO(ShapeText(t.map) << " to " << t.columns);
    Shape wide = t.map;
    wide.back() = t.columns;
    const Shape w{t.map.back(), 1, 1, t.columns};
    const CaseTensor channel = Empty(Kind::kF32, {t.columns});
    const Shape last = t.half ? HalfOf(wide) : wide;
    const OpCase c{OpType::kDgradJoin,
                   ConvAttrs{},
                   {t.mask ? Mask(wide, 1) : Absent(), Map(t.map, 2), Map(w, 3),
                    Map(t.second ? wide : last, 4), t.second ? Map(last, 5) : Absent()},
                   {Empty(Kind::kCompute, wide), channel, t.second ? channel : Absent()}};
    const CaseResult got = RunCase(*TestBackends()[0], DType::kF32, c);
    if (t.half) {  // the same as with the map that it stands for
      OpCase whole = c;
      CaseTensor& in = whole.inputs[t.second ? 4 : 3];
      in = Given(Kind::kCompute, wide, WholeOf(in.values, wide));
      CHECK(RunCase(*TestBackends()[0], DType::kF32, whole) == got);
    }
    // Sums of rounded values: each is off by up to half a unit, at random.
    CompareBackends(c, {}, 4e-3, {DType::kBF16});
    if (tf32 == nullptr) continue;
    OpCase exact = c;  // in tf32 too: five bits a factor
    exact.inputs[1] = Sixteenths(t.map, 2);
    exact.inputs[2] = Sixteenths(w, 3);
    const CaseResult want = RunCase(*TestBackends()[0], DType::kF32, exact);
    const CaseResult by_tf32 = RunCase(*tf32, DType::kF32, exact);
    for (size_t i = 0; i < want.size(); ++i) {
      CheckClose("tf32 output " + std::to_string(i), {by_tf32[i].begin(), by_tf32[i].end()},
                 want[i], 1e-5);
    }
  }
}

TEST_CASE("two batch norms applied at once equal one after the other", "[nn]") {
  const Shape s{3, 5, 7, 24};
  Backend& cpu = *TestBackends()[0];
  const OpCase both = JoinOf(s, true, false);
  OpCase first = JoinOf(s, false, false), last = first;
  std::get<NormAttrs>(first.attrs).relu = false;
  for (size_t i = 0; i < 5; ++i) {
    first.inputs[i] = both.inputs[i];
    last.inputs[i] = both.inputs[5 + i];
  }
  const CaseResult a = RunCase(cpu, DType::kF32, first);
  last.inputs[10] = Given(Kind::kCompute, s, a[0]);
  CHECK(RunCase(cpu, DType::kF32, last) == RunCase(cpu, DType::kF32, both));
}

}  // namespace xp::graph
