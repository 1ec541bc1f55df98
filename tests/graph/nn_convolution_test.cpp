// Convolution, its gradients and linear layers against loops in double, on every backend.

#include <initializer_list>
#include <random>

#include "catch.h"
#include "graph/nn_check.h"
#include "graph/run_graph.h"

namespace xp::graph {
namespace {

struct Case {
  const char* name;
  int64_t n, h, w, c, o;
  int64_t kh, kw;
  ConvAttrs attrs;
  bool bias;
};

const Case kCases[] = {
    {"3x3 padded", 2, 9, 11, 8, 6, 3, 3, {{1, 1}, {1, 1}}, false},
    {"1x1", 2, 5, 7, 12, 8, 1, 1, {}, true},
    {"1x1 of 64 to 256", 1, 14, 14, 64, 256, 1, 1, {}, false},
    {"1x1 stride 2, even sides", 2, 28, 32, 64, 72, 1, 1, {{2, 2}, {0, 0}}, true},
    {"1x1 stride 2 of few channels", 2, 32, 12, 4, 6, 1, 1, {{2, 2}, {0, 0}}, false},
    {"1x1 stride 2 of channels between blocks", 1, 24, 24, 12, 6, 1, 1, {{2, 2}, {0, 0}}, false},
    {"1x1 of two strides", 2, 12, 12, 3, 5, 1, 1, {{3, 2}, {0, 0}}, false},
    {"1x1 stride 2", 2, 9, 12, 32, 48, 1, 1, {{2, 2}, {0, 0}}, false},
    {"stem 7x7 stride 2", 2, 20, 23, 3, 64, 7, 7, {{2, 2}, {3, 3}}, false},
    {"3x3 stride 2, even width", 1, 10, 12, 16, 16, 3, 3, {{2, 2}, {1, 1}}, true},
    {"single pixel", 1, 1, 1, 5, 7, 1, 1, {}, true},
    {"single pixel under a 3x3", 1, 1, 1, 5, 7, 3, 3, {{1, 1}, {1, 1}}, false},
    {"channels not divisible by 16", 2, 6, 5, 17, 33, 3, 3, {{1, 1}, {1, 1}}, true},
    {"one channel to one", 1, 8, 8, 1, 1, 3, 3, {{1, 1}, {1, 1}}, true},
    {"groups 32x4d", 1, 8, 7, 128, 128, 3, 3, {{1, 1}, {1, 1}, {1, 1}, 32}, false},
    {"groups 32x4d stride 2", 1, 9, 8, 128, 128, 3, 3, {{2, 2}, {1, 1}, {1, 1}, 32}, false},
    {"groups 32x8d", 1, 7, 7, 256, 256, 3, 3, {{1, 1}, {1, 1}, {1, 1}, 32}, false},
    {"groups of 16", 1, 7, 6, 64, 64, 3, 3, {{1, 1}, {1, 1}, {1, 1}, 4}, true},
    {"groups of 3 to 5", 2, 6, 6, 12, 20, 3, 3, {{1, 1}, {1, 1}, {1, 1}, 4}, true},
    {"depthwise", 1, 9, 9, 24, 24, 3, 3, {{1, 1}, {1, 1}, {1, 1}, 24}, true},
    {"dilation 2", 1, 11, 9, 6, 6, 3, 3, {{1, 1}, {2, 2}, {2, 2}}, false},
    {"dilation 6 (fc6 of SSD)", 1, 13, 13, 16, 32, 3, 3, {{1, 1}, {6, 6}, {6, 6}}, true},
    {"dilation 2 and stride 2", 1, 13, 12, 16, 16, 3, 3, {{2, 2}, {2, 2}, {2, 2}}, false},
    {"valid 3x3 (SSD extras)", 1, 5, 5, 16, 24, 3, 3, {}, true},
    {"not square, pad and stride differ", 2, 8, 13, 8, 16, 3, 5, {{2, 1}, {0, 2}, {1, 1}}, true},
    {"last rows unread", 1, 8, 8, 16, 16, 3, 3, {{3, 3}, {0, 0}}, false},
    {"15 anchors' worth of outputs", 1, 10, 8, 256, 3, 1, 1, {}, true},
};

struct Sizes {
  int64_t oh, ow, ci, co;
  int64_t x, w, y;
};

Sizes SizesOf(const Case& c) {
  const auto out = [](int64_t size, int64_t kernel, int stride, int pad, int dilation) {
    return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  };
  Sizes s{};
  s.oh = out(c.h, c.kh, c.attrs.stride[0], c.attrs.pad[0], c.attrs.dilation[0]);
  s.ow = out(c.w, c.kw, c.attrs.stride[1], c.attrs.pad[1], c.attrs.dilation[1]);
  s.ci = c.c / c.attrs.groups;
  s.co = c.o / c.attrs.groups;
  s.x = c.n * c.h * c.w * c.c;
  s.w = c.o * c.kh * c.kw * s.ci;
  s.y = c.n * s.oh * s.ow * c.o;
  return s;
}

// Calls f(index of x, index of w, index of y) for each product of the convolution.
template <typename F>
void EachProduct(const Case& c, const F& f) {
  const Sizes s = SizesOf(c);
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t oy = 0; oy < s.oh; ++oy)
      for (int64_t ox = 0; ox < s.ow; ++ox)
        for (int64_t ky = 0; ky < c.kh; ++ky)
          for (int64_t kx = 0; kx < c.kw; ++kx) {
            const int64_t y = oy * c.attrs.stride[0] - c.attrs.pad[0] + ky * c.attrs.dilation[0];
            const int64_t x = ox * c.attrs.stride[1] - c.attrs.pad[1] + kx * c.attrs.dilation[1];
            if (y < 0 || y >= c.h || x < 0 || x >= c.w) continue;
            for (int64_t o = 0; o < c.o; ++o)
              for (int64_t i = 0; i < s.ci; ++i)
                f(static_cast<size_t>(((n * c.h + y) * c.w + x) * c.c + o / s.co * s.ci + i),
                  static_cast<size_t>(((o * c.kh + ky) * c.kw + kx) * s.ci + i),
                  static_cast<size_t>(((n * s.oh + oy) * s.ow + ox) * c.o + o));
          }
}

struct Data {
  std::vector<float> x, w, b, dy;
};

Data DataOf(const Case& c, DType type) {
  const Sizes s = SizesOf(c);
  return {Values(s.x, 1, type), Values(s.w, 2, type), Values(c.o, 3, DType::kF32),
          Values(s.y, 4, type)};
}

std::vector<double> Forward(const Case& c, const Data& d, bool relu) {
  std::vector<double> y(d.dy.size());
  if (c.bias) {
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<double>(d.b[i % d.b.size()]);
  }
  EachProduct(c, [&](size_t x, size_t w, size_t o) {
    y[o] += static_cast<double>(d.x[x]) * static_cast<double>(d.w[w]);
  });
  if (relu) {
    for (double& v : y) v = v > 0 ? v : 0;
  }
  return y;
}

void CheckForward(Backend& backend, DType type, const Case& c, bool relu) {
  const Sizes s = SizesOf(c);
  const Data d = DataOf(c, type);
  OpRunner run(backend, type);
  const TensorId x = run.Input("x", {c.n, c.h, c.w, c.c}, d.x);
  const TensorId w = run.Input("w", {c.o, c.kh, c.kw, s.ci}, d.w);
  const TensorId y = run.Output("y", {c.n, s.oh, s.ow, c.o});
  std::vector<TensorId> inputs{x, w};
  if (c.bias) inputs.push_back(run.InputF32("b", {c.o}, d.b));
  ConvAttrs attrs = c.attrs;
  attrs.relu = relu;
  run.graph().AddOp(OpType::kConv2d, inputs, {y}, attrs, "conv");
  run.Run();
  CheckClose("forward", run.Floats(y), Forward(c, d, relu), Tolerance(type));
}

void CheckGradients(Backend& backend, DType type, const Case& c) {
  const Sizes s = SizesOf(c);
  const Data d = DataOf(c, type);
  OpRunner run(backend, type);
  const TensorId x = run.Input("x", {c.n, c.h, c.w, c.c}, d.x);
  const TensorId w = run.Input("w", {c.o, c.kh, c.kw, s.ci}, d.w);
  const TensorId dy = run.Input("dy", {c.n, s.oh, s.ow, c.o}, d.dy);
  const TensorId dx = run.Output("dx", {c.n, c.h, c.w, c.c});
  const TensorId dw = run.Output("dw", {c.o, c.kh, c.kw, s.ci});
  const TensorId db = run.Output("db", {c.o}, DType::kF32);
  run.graph().AddOp(OpType::kConv2dDgrad, {dy, w}, {dx}, c.attrs, "dgrad");
  run.graph().AddOp(OpType::kConv2dWgrad, {x, dy}, {dw}, c.attrs, "wgrad");
  run.graph().AddOp(OpType::kBiasGrad, {dy}, {db}, NoAttrs{}, "bias");
  run.Run();
  std::vector<double> want_dx(d.x.size()), want_dw(d.w.size()), want_db(d.b.size());
  EachProduct(c, [&](size_t xi, size_t wi, size_t yi) {
    want_dx[xi] += static_cast<double>(d.dy[yi]) * static_cast<double>(d.w[wi]);
    want_dw[wi] += static_cast<double>(d.dy[yi]) * static_cast<double>(d.x[xi]);
  });
  for (size_t i = 0; i < d.dy.size(); ++i) {
    want_db[i % want_db.size()] += static_cast<double>(d.dy[i]);
  }
  CheckClose("dx", run.Floats(dx), want_dx, Tolerance(type));
  CheckClose("dw", run.Floats(dw), want_dw, Tolerance(type));
  CheckClose("db", run.Floats(db), want_db, Tolerance(DType::kF32));
}

}  // namespace

TEST_CASE("convolution equals loops in double", "[nn]") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      for (const Case& c : kCases) {
        INFO(backend->name() << " " << DTypeName(type) << ": " << c.name);
        CheckForward(*backend, type, c, false);
        CheckForward(*backend, type, c, true);
        CheckGradients(*backend, type, c);
      }
    }
  }
}

// Which of oneDNN's codes a convolution gets, and how that lays out its memory, goes by its shape.
TEST_CASE("convolutions of random shapes equal loops in double", "[nn]") {
  std::mt19937 random(20261203);
  const auto of = [&](std::initializer_list<int> values) {
    return *(values.begin() + random() % values.size());
  };
  Backend& cpu = *TestBackends().front();
  for (int i = 0; i < 150; ++i) {
    const int groups = of({1, 1, 1, 1, 2, 4}), kernel = of({1, 1, 1, 2, 3, 3, 5}), pad = kernel / 2;
    Case c{"random", of({1, 2, 3}), of({1, 3, 4, 6, 7, 8, 12, 16, 24}), 1, 1, 1, kernel, kernel,
           {},       false};
    c.w = of({1, 2, 5, 8, 9, 12, 16, 24, 28});
    c.c = groups * of({1, 2, 3, 4, 8, 9, 12, 16, 20, 32});
    c.o = groups * of({1, 2, 3, 5, 8, 12, 16, 24, 40});
    const int stride_y = of({1, 1, 2, 2, 3});
    c.attrs = {
        {stride_y, of({stride_y, stride_y, 1, 2})}, {pad, of({pad, pad, 0})}, {1, 1}, groups};
    if (c.w + 2 * c.attrs.pad[1] < kernel) c.attrs.pad[1] = pad;
    if (c.w + 2 * c.attrs.pad[1] < kernel || c.h + 2 * pad < kernel) continue;
    INFO(i << ": [" << c.n << ", " << c.h << ", " << c.w << ", " << c.c << "] to " << c.o
           << ", kernel " << kernel << ", stride " << stride_y << " " << c.attrs.stride[1]
           << ", pad " << pad << " " << c.attrs.pad[1] << ", groups " << groups);
    const DType type = i % 3 == 0 ? DType::kBF16 : DType::kF32;
    CheckForward(cpu, type, c, false);
    CheckGradients(cpu, type, c);
  }
}

TEST_CASE("convolutions repeat bit for bit", "[nn]") {
  const Case c{"layer2", 4, 20, 20, 64, 128, 3, 3, {{2, 2}, {1, 1}}, true};
  const Sizes s = SizesOf(c);
  for (Backend* backend : TestBackends()) {
    const Data d = DataOf(c, DType::kF32);
    OpRunner run(*backend);
    const TensorId x = run.Input("x", {c.n, c.h, c.w, c.c}, d.x);
    const TensorId w = run.Input("w", {c.o, c.kh, c.kw, s.ci}, d.w);
    const TensorId b = run.InputF32("b", {c.o}, d.b);
    const TensorId dy = run.Input("dy", {c.n, s.oh, s.ow, c.o}, d.dy);
    const TensorId y = run.Output("y", {c.n, s.oh, s.ow, c.o});
    const TensorId dx = run.Output("dx", {c.n, c.h, c.w, c.c});
    const TensorId dw = run.Output("dw", {c.o, c.kh, c.kw, s.ci});
    const TensorId db = run.Output("db", {c.o}, DType::kF32);
    run.graph().AddOp(OpType::kConv2d, {x, w, b}, {y}, c.attrs, "conv");
    run.graph().AddOp(OpType::kConv2dDgrad, {dy, w}, {dx}, c.attrs, "dgrad");
    run.graph().AddOp(OpType::kConv2dWgrad, {x, dy}, {dw}, c.attrs, "wgrad");
    run.graph().AddOp(OpType::kBiasGrad, {dy}, {db}, NoAttrs{}, "bias");
    std::vector<std::vector<uint8_t>> first;
    for (int i = 0; i < 20; ++i) {
      run.Run();
      std::vector<std::vector<uint8_t>> bytes;
      for (TensorId id : {y, dx, dw, db}) bytes.push_back(run.Bytes(id));
      if (i == 0) first = bytes;
      INFO(backend->name() << ", run " << i);
      REQUIRE(bytes == first);
    }
  }
}

namespace {

// y[m, o] = sum over k of x[m, k] * w[o, k], and the gradients, for M x K and O x K.
void CheckLinear(Backend& backend, DType type, int64_t m, int64_t k, int64_t o, bool relu) {
  INFO(backend.name() << " " << DTypeName(type) << ": [" << m << ", " << k << "] to " << o);
  const auto x = Values(m * k, 11, type), w = Values(o * k, 12, type), dy = Values(m * o, 13, type);
  const auto b = Values(o, 14, DType::kF32);
  OpRunner run(backend, type);
  const TensorId tx = run.Input("x", {m, k}, x), tw = run.Input("w", {o, k}, w);
  const TensorId tb = run.InputF32("b", {o}, b), tdy = run.Input("dy", {m, o}, dy);
  const TensorId y = run.Output("y", {m, o}), dx = run.Output("dx", {m, k});
  const TensorId dw = run.Output("dw", {o, k});
  run.graph().AddOp(OpType::kLinear, {tx, tw, tb}, {y}, ReluAttrs{relu}, "linear");
  run.graph().AddOp(OpType::kLinearDgrad, {tdy, tw}, {dx}, NoAttrs{}, "dgrad");
  run.graph().AddOp(OpType::kLinearWgrad, {tx, tdy}, {dw}, NoAttrs{}, "wgrad");
  run.Run();
  std::vector<double> want_y(static_cast<size_t>(m * o)), want_dx(x.size()), want_dw(w.size());
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t c = 0; c < o; ++c) {
      const auto at = static_cast<size_t>(r * o + c);
      double sum = static_cast<double>(b[static_cast<size_t>(c)]);
      for (int64_t i = 0; i < k; ++i) {
        const auto xi = static_cast<size_t>(r * k + i), wi = static_cast<size_t>(c * k + i);
        sum += static_cast<double>(x[xi]) * static_cast<double>(w[wi]);
        want_dx[xi] += static_cast<double>(dy[at]) * static_cast<double>(w[wi]);
        want_dw[wi] += static_cast<double>(dy[at]) * static_cast<double>(x[xi]);
      }
      want_y[at] = relu && sum < 0 ? 0 : sum;
    }
  }
  CheckClose("y", run.Floats(y), want_y, Tolerance(type));
  CheckClose("dx", run.Floats(dx), want_dx, Tolerance(type));
  CheckClose("dw", run.Floats(dw), want_dw, Tolerance(type));
}

}  // namespace

TEST_CASE("linear layers equal loops in double", "[nn]") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      CheckLinear(*backend, type, 5, 12, 7, false);
      CheckLinear(*backend, type, 1, 1, 1, true);
      CheckLinear(*backend, type, 64, 784, 128, true);
      CheckLinear(*backend, type, 33, 130, 17, false);
      CheckLinear(*backend, type, 128, 64, 4, false);
      CheckLinear(*backend, type, 3, 2048, 1000, true);
    }
  }
}

TEST_CASE("a linear layer flattens a feature map", "[nn]") {
  for (Backend* backend : TestBackends()) {
    const auto x = Values(3LL * 2 * 2 * 5, 21, DType::kF32), w = Values(4LL * 20, 22, DType::kF32);
    OpRunner run(*backend);
    const TensorId tx = run.Input("x", {3, 2, 2, 5}, x), tw = run.Input("w", {4, 20}, w);
    const TensorId y = run.Output("y", {3, 4});
    run.graph().AddOp(OpType::kLinear, {tx, tw}, {y}, ReluAttrs{}, "linear");
    run.Run();
    std::vector<double> want(12);
    for (size_t r = 0; r < 3; ++r) {
      for (size_t o = 0; o < 4; ++o) {
        for (size_t k = 0; k < 20; ++k) {
          want[r * 4 + o] +=
              static_cast<double>(x[r * 20 + k]) * static_cast<double>(w[o * 20 + k]);
        }
      }
    }
    CheckClose("y", run.Floats(y), want, Tolerance(DType::kF32));
  }
}

}  // namespace xp::graph
