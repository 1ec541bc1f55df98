// kClipGrad, kAccumulate, kEma, kUpdateLossScale and kCastParams against double precision.
#include "catch.h"
#include "graph/update_support.h"

using namespace xp::graph;

namespace {

struct Clip {
  double factor, norm;
};

Clip ReferenceClip(const UpdateCase& c, const ClipAttrs& attrs, double loss_scale) {
  double sum = 0;
  for (const Segment& s : c.segments) {
    const std::vector<float>& grad = c.GradOf(s, attrs.use_accumulated);
    for (int64_t i = s.offset; i < s.offset + s.count; ++i) {
      sum += double{grad[static_cast<size_t>(i)]} * grad[static_cast<size_t>(i)];
    }
  }
  double unscale = attrs.inverse_count / loss_scale, norm = std::sqrt(sum) * unscale;
  double clip = attrs.max_norm > 0 ? std::min(1.0, attrs.max_norm / (norm + 1e-6)) : 1.0;
  return {unscale * clip, norm};
}

struct ClipRun {
  OpRunner run;
  TensorId factor, norm;
};

ClipRun MakeClip(Backend& backend, DType type, const UpdateCase& c, ClipAttrs attrs,
                 float loss_scale) {
  OpRunner run(backend, type);
  Shape flat{c.total};
  attrs.segments = c.segments;
  TensorId grad = run.InputF32("grad", flat, c.PackedGrad());
  TensorId compute =
      type == DType::kF32 ? kNoTensor : run.Input("grad_compute", flat, c.grad_compute);
  TensorId scale = run.InputF32("loss_scale", {1}, {loss_scale});
  TensorId sum =
      attrs.use_accumulated ? run.InputF32("accumulated", flat, c.accumulated) : kNoTensor;
  TensorId factor = run.Output("factor", {1}, DType::kF32);
  TensorId norm = run.Output("norm", {1}, DType::kF32);
  run.graph().AddOp(OpType::kClipGrad, {grad, compute, scale, sum}, {factor, norm}, attrs, "clip");
  return {std::move(run), factor, norm};
}

void CheckClip(const ClipAttrs& attrs, float loss_scale) {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      INFO(backend->name() << " " << DTypeName(type));
      UpdateCase c(type, 21);
      ClipRun clip = MakeClip(*backend, type, c, attrs, loss_scale);
      clip.run.Run();
      Clip want = ReferenceClip(c, attrs, loss_scale);
      CHECK(clip.run.Floats(clip.factor)[0] == Approx(want.factor).epsilon(1e-6));
      CHECK(clip.run.Floats(clip.norm)[0] == Approx(want.norm).epsilon(1e-6));
      std::vector<uint8_t> bits = clip.run.Bytes(clip.norm);
      clip.run.Run();
      CHECK(clip.run.Bytes(clip.norm) == bits);
    }
  }
}

}  // namespace

TEST_CASE("the clipping factor joins loss scale, accumulation and norm") {
  CheckClip({}, 1);
  CheckClip({.max_norm = 35}, 1);
  CheckClip({.max_norm = 35, .inverse_count = 0.25f}, 1024);
  CheckClip({.max_norm = 1e6f}, 1);
  CheckClip({.inverse_count = 0.5f, .use_accumulated = true}, 8);
}

TEST_CASE("a gradient that isn't finite gives factor 0; a huge one doesn't") {
  for (Backend* backend : TestBackends()) {
    for (float value : {INFINITY, -INFINITY, std::nanf("")}) {
      for (size_t at : {size_t{3}, size_t{64}, size_t{300}, size_t{30000}}) {
        UpdateCase c(DType::kF32, 4);
        c.grad[at] = value;
        ClipRun clip = MakeClip(*backend, DType::kF32, c, {.max_norm = 1}, 1);
        clip.run.Run();
        CHECK(clip.run.Floats(clip.factor)[0] == 0);
      }
    }
    UpdateCase c(DType::kF32, 4);
    c.grad[600] = 1e30f;  // and infinity in the gaps between segments: nobody's gradients
    ClipRun clip = MakeClip(*backend, DType::kF32, c, {.max_norm = 1}, 1);
    clip.run.Run();
    CHECK(clip.run.Floats(clip.factor)[0] == Approx(1e-30));
    CHECK(clip.run.Floats(clip.norm)[0] == Approx(1e30));
  }
}

TEST_CASE("gradients accumulate, beginning anew at a first step") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      for (int32_t first : {0, 1}) {
        UpdateCase c(type, 8);
        OpRunner run(*backend, type);
        Shape flat{c.total};
        TensorId grad = run.InputF32("grad", flat, c.PackedGrad());
        TensorId compute =
            type == DType::kF32 ? kNoTensor : run.Input("grad_compute", flat, c.grad_compute);
        TensorId sum = run.InputF32("accumulated", flat, c.accumulated);
        TensorId begin = run.InputI32("first", {1}, {first});
        run.graph().AddOp(OpType::kAccumulate, {grad, compute, sum, begin}, {sum},
                          UpdateAttrs{.segments = c.segments}, "accumulate");
        run.Run();
        std::vector<float> want = c.accumulated;
        for (const Segment& s : c.segments) {
          for (int64_t k = s.offset; k < s.offset + s.count; ++k) {
            auto i = static_cast<size_t>(k);
            want[i] = first ? c.GradOf(s, false)[i] : want[i] + c.GradOf(s, false)[i];
          }
        }
        CHECK(run.Floats(sum) == want);
      }
    }
  }
}

TEST_CASE("the averaged model moves by its momentum") {
  for (Backend* backend : TestBackends()) {
    UpdateCase c(DType::kF32, 8);
    OpRunner run(*backend);
    Shape flat{c.total};
    TensorId param = run.InputF32("param", flat, c.param);
    TensorId ema = run.InputF32("ema", flat, c.grad);
    TensorId momentum = run.InputF32("momentum", {1}, {0.125f});
    run.graph().AddOp(OpType::kEma, {param, ema, momentum}, {ema}, NoAttrs{}, "ema");
    run.Run();
    std::vector<float> got = run.Floats(ema);
    for (size_t i = 0; i < got.size(); ++i) {
      double want = 0.875 * c.grad[i] + 0.125 * c.param[i];
      if (std::abs(got[i] - want) > 1e-6) FAIL("element " << i);
    }
  }
}

TEST_CASE("the loss scale halves on overflow and doubles after good steps") {
  for (Backend* backend : TestBackends()) {
    auto step = [&](float factor, float scale, float good, LossScaleAttrs attrs) {
      OpRunner run(*backend);
      TensorId f = run.InputF32("factor", {1}, {factor});
      TensorId s = run.InputF32("scale", {1}, {scale});
      TensorId g = run.InputF32("good", {1}, {good});
      run.graph().AddOp(OpType::kUpdateLossScale, {f, s, g}, {s, g}, attrs, "scale");
      run.Run();
      return std::pair{run.Floats(s)[0], run.Floats(g)[0]};
    };
    CHECK(step(0, 1024, 7, {.interval = 10}) == std::pair{512.0f, 0.0f});
    CHECK(step(0.1f, 1024, 7, {.interval = 10}) == std::pair{1024.0f, 8.0f});
    CHECK(step(0.1f, 1024, 9, {.interval = 10}) == std::pair{2048.0f, 0.0f});
    CHECK(step(0.1f, 1024, 9, {.interval = 10, .max_scale = 1500}) == std::pair{1500.0f, 0.0f});
    CHECK(step(0, 1.0f / 16777216, 0, {}).first > 0);
  }
}

TEST_CASE("parameters are cast to the compute type, rounding to nearest even") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      if (type == DType::kF32) continue;  // there is no second copy then
      UpdateCase c(type, 8);
      OpRunner run(*backend, type);
      TensorId param = run.InputF32("param", {c.total}, c.param);
      TensorId compute = run.Output("param_compute", {c.total});
      run.graph().AddOp(OpType::kCastParams, {param}, {compute}, NoAttrs{}, "cast");
      run.Run();
      std::vector<float> got = run.Floats(compute);
      for (size_t i = 0; i < got.size(); ++i) {
        if (got[i] != UpdateCase::Rounded(c.param[i], type)) FAIL("element " << i);
      }
    }
  }
}
