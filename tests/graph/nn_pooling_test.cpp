// Pooling and resampling against loops, on every backend.
#include <cmath>
#include <limits>

#include "catch.h"
#include "exp/graph/builder.h"
#include "graph/nn_check.h"
#include "graph/run_graph.h"

namespace xp::graph {
namespace {

using Doubles = std::vector<double>;

struct PoolCase {
  int64_t n, h, w, c;
  PoolAttrs attrs;
};

const PoolCase kPools[] = {
    {2, 11, 13, 5, {3, 2, 1, false}},  {1, 40, 40, 64, {3, 2, 1, false}},
    {2, 11, 13, 5, {2, 2, 0, true}},   {2, 10, 12, 16, {2, 2, 0, false}},
    {1, 75, 75, 256, {2, 2, 0, true}},  // SSD's pool3
    {2, 7, 9, 24, {3, 1, 1, false}},    // SSD's pool5
    {1, 1, 1, 3, {3, 2, 1, false}},    {1, 9, 9, 300, {1, 2, 0, false}},
    {1, 3, 3, 17, {3, 3, 1, true}},
};

struct PoolReference {
  int64_t oh, ow;
  Doubles y;
  std::vector<uint8_t> arg;
  std::vector<size_t> source;  // index of the maximum in x
};

PoolReference ReferencePool(const PoolCase& p, const std::vector<float>& x) {
  PoolReference r;
  r.oh = PoolOutputSize(static_cast<int>(p.h), p.attrs);
  r.ow = PoolOutputSize(static_cast<int>(p.w), p.attrs);
  for (int64_t n = 0; n < p.n; ++n)
    for (int64_t oy = 0; oy < r.oh; ++oy)
      for (int64_t ox = 0; ox < r.ow; ++ox)
        for (int64_t c = 0; c < p.c; ++c) {
          double best = -std::numeric_limits<double>::infinity();
          size_t source = 0;
          int tap = 0;
          for (int ky = 0; ky < p.attrs.kernel; ++ky)
            for (int kx = 0; kx < p.attrs.kernel; ++kx) {
              const int64_t iy = oy * p.attrs.stride - p.attrs.pad + ky;
              const int64_t ix = ox * p.attrs.stride - p.attrs.pad + kx;
              if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;
              const auto at = static_cast<size_t>(((n * p.h + iy) * p.w + ix) * p.c + c);
              if (static_cast<double>(x[at]) > best) {
                best = static_cast<double>(x[at]);
                source = at;
                tap = ky * p.attrs.kernel + kx;
              }
            }
          r.y.push_back(best);
          r.arg.push_back(static_cast<uint8_t>(tap));
          r.source.push_back(source);
        }
  return r;
}

void CheckMaxPool(Backend& backend, DType type, const PoolCase& p, bool ties) {
  INFO(backend.name() << " " << DTypeName(type) << " [" << p.n << ", " << p.h << ", " << p.w << ", "
                      << p.c << "] kernel " << p.attrs.kernel << " stride " << p.attrs.stride);
  auto x = Values(p.n * p.h * p.w * p.c, 1, type);
  if (ties) {
    for (float& v : x) v = std::floor(v * 2);  // -2, -1, 0, 1: many equal values
  }
  const PoolReference want = ReferencePool(p, x);
  const auto dy = Values(static_cast<int64_t>(want.y.size()), 2, type);
  const Shape in{p.n, p.h, p.w, p.c}, out{p.n, want.oh, want.ow, p.c};
  OpRunner run(backend, type);
  const TensorId tx = run.Input("x", in, x), tdy = run.Input("dy", out, dy);
  const TensorId y = run.Output("y", out), arg = run.Output("arg", out, DType::kU8);
  const TensorId dx = run.Output("dx", in), eval = run.Output("eval", out);
  run.graph().AddOp(OpType::kMaxPool, {tx}, {y, arg}, p.attrs, "pool");
  run.graph().AddOp(OpType::kMaxPool, {tx}, {eval, kNoTensor}, p.attrs, "pool_eval");
  run.graph().AddOp(OpType::kMaxPoolGrad, {tdy, arg}, {dx}, p.attrs, "pool_grad");
  run.Run();
  CheckClose("y", run.Floats(y), want.y, 0);
  CheckClose("y without argmax", run.Floats(eval), want.y, 0);
  CHECK(run.Bytes(arg) == want.arg);
  Doubles want_dx(x.size());
  for (size_t i = 0; i < dy.size(); ++i) want_dx[want.source[i]] += static_cast<double>(dy[i]);
  CheckClose("dx", run.Floats(dx), want_dx, Tolerance(type));
}

struct UpCase {
  int64_t n, h, w, big_h, big_w, c;
};
const UpCase kUps[] = {{2, 3, 4, 6, 8, 4},  {2, 3, 4, 5, 7, 4},   {1, 2, 2, 3, 4, 17},
                       {1, 7, 5, 7, 5, 16}, {1, 1, 1, 9, 8, 256}, {1, 4, 6, 13, 19, 3},
                       {1, 5, 5, 3, 4, 8}};  // smaller than its source: some are never read

}  // namespace

TEST_CASE("max pooling takes the first maximum, its gradient goes there", "[nn]") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      for (const PoolCase& p : kPools) {
        CheckMaxPool(*backend, type, p, false);
        CheckMaxPool(*backend, type, p, true);
      }
    }
  }
}

TEST_CASE("max pooling hands a NaN on and takes minus infinity as it is", "[nn]") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (Backend* backend : TestBackends()) {
    OpRunner run(*backend);
    const TensorId x = run.Input("x", {1, 2, 4, 1}, {1, NAN, -kInf, -kInf, 2, 3, -kInf, -kInf});
    const TensorId y = run.Output("y", {1, 1, 2, 1}),
                   arg = run.Output("a", {1, 1, 2, 1}, DType::kU8);
    run.graph().AddOp(OpType::kMaxPool, {x}, {y, arg}, PoolAttrs{2, 2, 0, false}, "pool");
    run.Run();
    INFO(backend->name());
    CHECK(std::isnan(run.Floats(y)[0]));
    CHECK(run.Floats(y)[1] == -kInf);
    CHECK(run.Bytes(arg) == std::vector<uint8_t>{1, 0});
  }
}

TEST_CASE("global average pooling", "[nn]") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      for (const Shape& shape : {Shape{2, 5, 7, 6}, Shape{3, 7, 7, 512}, Shape{1, 1, 1, 3}}) {
        INFO(backend->name() << " " << DTypeName(type) << " " << ShapeText(shape));
        const int64_t c = shape[3], pixels = shape[1] * shape[2];
        const auto x = Values(NumElements(shape), 1, type), dy = Values(shape[0] * c, 2, type);
        OpRunner run(*backend, type);
        const TensorId tx = run.Input("x", shape, x), tdy = run.Input("dy", {shape[0], c}, dy);
        const TensorId y = run.Output("y", {shape[0], c}), dx = run.Output("dx", shape);
        run.graph().AddOp(OpType::kGlobalAvgPool, {tx}, {y}, NoAttrs{}, "pool");
        run.graph().AddOp(OpType::kGlobalAvgPoolGrad, {tdy}, {dx}, NoAttrs{}, "grad");
        run.Run();
        Doubles want_y(dy.size()), want_dx(x.size());
        for (size_t i = 0; i < x.size(); ++i) {
          const size_t at = i / static_cast<size_t>(pixels * c) * static_cast<size_t>(c) +
                            i % static_cast<size_t>(c);
          want_y[at] += static_cast<double>(x[i]) / static_cast<double>(pixels);
          want_dx[i] = static_cast<double>(dy[at]) / static_cast<double>(pixels);
        }
        CheckClose("y", run.Floats(y), want_y, Tolerance(type));
        CheckClose("dx", run.Floats(dx), want_dx, Tolerance(type));
      }
    }
  }
}

TEST_CASE("nearest upsampling with addition, and its gradient", "[nn]") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      for (const UpCase& u : kUps) {
        INFO(backend->name() << " " << DTypeName(type) << " " << u.h << " x " << u.w << " to "
                             << u.big_h << " x " << u.big_w);
        const Shape small{u.n, u.h, u.w, u.c}, big{u.n, u.big_h, u.big_w, u.c};
        const auto top = Values(NumElements(small), 1, type);
        const auto lateral = Values(NumElements(big), 2, type);
        const auto dy = Values(NumElements(big), 3, type);
        OpRunner run(*backend, type);
        const TensorId ttop = run.Input("top", small, top), tl = run.Input("lateral", big, lateral);
        const TensorId tdy = run.Input("dy", big, dy);
        const TensorId y = run.Output("y", big), dtop = run.Output("dtop", small);
        run.graph().AddOp(OpType::kUpsampleAdd, {ttop, tl}, {y}, NoAttrs{}, "up");
        run.graph().AddOp(OpType::kUpsampleGrad, {tdy}, {dtop}, NoAttrs{}, "grad");
        run.Run();
        Doubles want_y(dy.size()), want_dtop(top.size());
        for (int64_t i = 0; i < NumElements(big); ++i) {
          const int64_t c = i % u.c, x = i / u.c % u.big_w, row = i / u.c / u.big_w % u.big_h;
          const int64_t n = i / u.c / u.big_w / u.big_h;
          const auto source = static_cast<size_t>(
              ((n * u.h + row * u.h / u.big_h) * u.w + x * u.w / u.big_w) * u.c + c);
          const auto at = static_cast<size_t>(i);
          want_y[at] = static_cast<double>(top[source]) + static_cast<double>(lateral[at]);
          want_dtop[source] += static_cast<double>(dy[at]);
        }
        CheckClose("y", run.Floats(y), want_y, Tolerance(type));
        CheckClose("dtop", run.Floats(dtop), want_dtop, Tolerance(type));
      }
    }
  }
}

TEST_CASE("subsampling takes every second pixel, its gradient goes back there", "[nn]") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      for (const Shape& in : {Shape{2, 6, 8, 16}, Shape{1, 5, 7, 3}, Shape{1, 1, 1, 256}}) {
        const Shape out{in[0], (in[1] + 1) / 2, (in[2] + 1) / 2, in[3]};
        const auto x = Values(NumElements(in), 1, type), dy = Values(NumElements(out), 2, type);
        OpRunner run(*backend, type);
        const TensorId tx = run.Input("x", in, x), tdy = run.Input("dy", out, dy);
        const TensorId y = run.Output("y", out), dx = run.Output("dx", in);
        run.graph().AddOp(OpType::kSubsample, {tx}, {y}, NoAttrs{}, "sub");
        run.graph().AddOp(OpType::kSubsampleGrad, {tdy}, {dx}, NoAttrs{}, "grad");
        run.Run();
        Doubles want_y, want_dx(x.size());
        for (int64_t i = 0; i < NumElements(out); ++i) {
          const int64_t c = i % in[3], ox = i / in[3] % out[2], oy = i / in[3] / out[2] % out[1];
          const int64_t n = i / in[3] / out[2] / out[1];
          const auto at = static_cast<size_t>(((n * in[1] + oy * 2) * in[2] + ox * 2) * in[3] + c);
          want_y.push_back(static_cast<double>(x[at]));
          want_dx[at] = static_cast<double>(dy[static_cast<size_t>(i)]);
        }
        CheckClose("y", run.Floats(y), want_y, 0);
        CheckClose("dx", run.Floats(dx), want_dx, 0);
      }
    }
  }
}

}  // namespace xp::graph
