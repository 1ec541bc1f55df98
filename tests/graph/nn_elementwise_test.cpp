// Image normalisation, sums, ReLU, sigmoid and conversions.
#include <cmath>
#include <limits>

#include "catch.h"
#include "graph/nn_check.h"
#include "graph/run_graph.h"
#include "src/graph/half.h"

namespace xp::graph {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
// Sizes around the widths of vectors and of the pieces that threads take.
const int64_t kSizes[] = {1, 7, 8, 17, 8191, 8192, 20001};

template <typename F>
std::vector<double> Map(const std::vector<float>& x, const F& f) {
  std::vector<double> y;
  for (float v : x) y.push_back(f(static_cast<double>(v)));
  return y;
}

}  // namespace

TEST_CASE("images are normalised inside their size and zero outside", "[nn]") {
  const NormalizeAttrs attrs{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
  const int64_t n = 3, h = 5, w = 7;
  const std::vector<int32_t> sizes{5, 7, 3, 4, 0, 7};
  std::vector<uint8_t> images(static_cast<size_t>(n * h * w * 3));
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<uint8_t>(i * 37 + i / 200);
  std::vector<double> want;
  for (size_t i = 0; i < images.size(); ++i) {
    const size_t c = i % 3, x = i / 3 % 7, y = i / 21 % 5, image = i / 105;
    const bool inside = static_cast<int32_t>(y) < sizes[image * 2] &&
                        static_cast<int32_t>(x) < sizes[image * 2 + 1];
    want.push_back(inside ? (images[i] / 255.0 - static_cast<double>(attrs.mean[c])) /
                                static_cast<double>(attrs.std[c])
                          : 0);
  }
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      INFO(backend->name() << " " << DTypeName(type));
      OpRunner run(*backend, type);
      const TensorId in = run.InputU8("images", {n, h, w, 3}, images);
      const TensorId size = run.InputI32("sizes", {n, 2}, sizes);
      const TensorId y = run.Output("y", {n, h, w, 3});
      run.graph().AddOp(OpType::kImageNormalize, {in, size}, {y}, attrs, "normalize");
      run.Run();
      CheckClose("y", run.Floats(y), want, Tolerance(type));
    }
  }
}

TEST_CASE("sums of two and more tensors, with and without ReLU", "[nn]") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      for (int64_t n : kSizes) {
        for (size_t count : {2, 3, 5}) {
          for (bool relu : {false, true}) {
            INFO(backend->name() << " " << DTypeName(type) << " " << n << " x " << count);
            OpRunner run(*backend, type);
            std::vector<TensorId> inputs;
            std::vector<double> want(static_cast<size_t>(n));
            for (size_t k = 0; k < count; ++k) {
              const auto x = Values(n, k, type);
              inputs.push_back(run.Input("x" + std::to_string(k), {n}, x));
              for (size_t i = 0; i < x.size(); ++i) want[i] += static_cast<double>(x[i]);
            }
            for (double& v : want) v = relu && v < 0 ? 0 : v;
            const TensorId y = run.Output("y", {n});
            run.graph().AddOp(OpType::kAdd, inputs, {y}, ReluAttrs{relu}, "add");
            run.Run();
            CheckClose("y", run.Floats(y), want, Tolerance(type));
          }
        }
      }
    }
  }
}

TEST_CASE("ReLU and sigmoid with their gradients", "[nn]") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      for (int64_t n : kSizes) {
        INFO(backend->name() << " " << DTypeName(type) << " " << n);
        const auto x = Values(n, 1, type, -6, 6), dy = Values(n, 2, type);
        const auto s = Values(n, 3, type, 0, 1);
        OpRunner run(*backend, type);
        const TensorId tx = run.Input("x", {n}, x), tdy = run.Input("dy", {n}, dy);
        const TensorId ts = run.Input("s", {n}, s);
        const TensorId relu = run.Output("relu", {n}), relu_grad = run.Output("relu_grad", {n});
        const TensorId sigmoid = run.Output("sigmoid", {n});
        const TensorId sigmoid_grad = run.Output("sigmoid_grad", {n});
        run.graph().AddOp(OpType::kRelu, {tx}, {relu}, NoAttrs{}, "relu");
        run.graph().AddOp(OpType::kReluGrad, {tdy, relu}, {relu_grad}, NoAttrs{}, "relu_grad");
        run.graph().AddOp(OpType::kSigmoid, {tx}, {sigmoid}, NoAttrs{}, "sigmoid");
        run.graph().AddOp(OpType::kSigmoidGrad, {tdy, ts}, {sigmoid_grad}, NoAttrs{}, "s_grad");
        run.Run();
        CheckClose("relu", run.Floats(relu), Map(x, [](double v) { return v > 0 ? v : 0; }), 0);
        CheckClose("sigmoid", run.Floats(sigmoid),
                   Map(x, [](double v) { return 1 / (1 + std::exp(-v)); }), Tolerance(type));
        std::vector<double> want_relu, want_sigmoid;
        for (size_t i = 0; i < x.size(); ++i) {
          const auto g = static_cast<double>(dy[i]), v = static_cast<double>(s[i]);
          want_relu.push_back(x[i] > 0 ? g : 0);
          want_sigmoid.push_back(g * v * (1 - v));
        }
        CheckClose("relu grad", run.Floats(relu_grad), want_relu, 0);
        CheckClose("sigmoid grad", run.Floats(sigmoid_grad), want_sigmoid, Tolerance(type));
      }
    }
  }
}

TEST_CASE("ReLU and sigmoid at the ends of the range", "[nn]") {
  for (Backend* backend : TestBackends()) {
    OpRunner run(*backend);
    const std::vector<float> x{-kInf, -1e30f, -100, -0.0f, 0, 100, 1e30f, kInf, NAN};
    const TensorId tx = run.Input("x", {9}, x);
    const TensorId relu = run.Output("relu", {9}), sigmoid = run.Output("sigmoid", {9});
    run.graph().AddOp(OpType::kRelu, {tx}, {relu}, NoAttrs{}, "relu");
    run.graph().AddOp(OpType::kSigmoid, {tx}, {sigmoid}, NoAttrs{}, "sigmoid");
    run.Run();
    const auto r = run.Floats(relu), s = run.Floats(sigmoid);
    INFO(backend->name());
    CHECK(std::vector<float>(r.begin(), r.end() - 1) ==
          std::vector<float>{0, 0, 0, 0, 0, 100, 1e30f, kInf});
    CHECK(std::isnan(r[8]));
    CHECK(s[0] == 0.0f);
    CHECK(s[1] == 0.0f);
    CHECK(s[2] >= 0.0f);
    CHECK(s[2] < 1e-43f);
    CHECK(s[4] == 0.5f);
    CHECK(s[7] == 1.0f);
    CHECK(std::isnan(s[8]));
  }
}

TEST_CASE("conversions round to nearest even", "[nn]") {
  const std::vector<float> x{0,     1,     1.00390625f, 1.01171875f, -3.14159f, 65504,   65520,
                             1e-7f, 6e-8f, 1e38f,       3.4e38f,     -kInf,     0.3333f, NAN};
  for (Backend* backend : TestBackends()) {
    for (DType to : {DType::kBF16, DType::kF16}) {
      OpRunner run(*backend);
      const TensorId tx = run.Input("x", {14}, x);
      const TensorId narrow = run.Output("narrow", {14}, to);
      const TensorId wide = run.Output("wide", {14}, DType::kF32);
      run.graph().AddOp(OpType::kCast, {tx}, {narrow}, NoAttrs{}, "narrow");
      run.graph().AddOp(OpType::kCast, {narrow}, {wide}, NoAttrs{}, "wide");
      run.Run();
      const auto got = run.Floats(narrow), back = run.Floats(wide);
      for (size_t i = 0; i < x.size(); ++i) {
        INFO(backend->name() << " " << DTypeName(to) << " " << x[i]);
        const float want =
            to == DType::kBF16 ? Bf16ToFloat(FloatToBf16(x[i])) : HalfToFloat(FloatToHalf(x[i]));
        if (std::isnan(want)) {
          CHECK(std::isnan(got[i]));
          CHECK(std::isnan(back[i]));
        } else {
          CHECK(got[i] == want);
          CHECK(back[i] == want);
        }
      }
    }
  }
}

}  // namespace xp::graph
