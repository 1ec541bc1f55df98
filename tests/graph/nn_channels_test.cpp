// Squeeze-and-excitation's scaling, SSD's L2 norm and the classification loss against formulas in
// double.
#include <cmath>
#include <limits>

#include "catch.h"
#include "graph/nn_check.h"
#include "graph/run_graph.h"

namespace xp::graph {
namespace {

using Doubles = std::vector<double>;

double D(float v) { return static_cast<double>(v); }

}  // namespace

TEST_CASE("scaling of channels and its gradients", "[nn]") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      for (const Shape& shape : {Shape{2, 5, 4, 8}, Shape{3, 40, 33, 24}, Shape{1, 1, 1, 3}}) {
        INFO(backend->name() << " " << DTypeName(type) << " " << ShapeText(shape));
        const int64_t c = shape[3], per_image = shape[1] * shape[2] * c;
        const auto x = Values(NumElements(shape), 1, type),
                   dy = Values(NumElements(shape), 2, type);
        const auto s = Values(shape[0] * c, 3, type, 0, 1);
        OpRunner run(*backend, type);
        const TensorId tx = run.Input("x", shape, x), tdy = run.Input("dy", shape, dy);
        const TensorId ts = run.Input("s", {shape[0], c}, s);
        const TensorId y = run.Output("y", shape), dx = run.Output("dx", shape);
        const TensorId ds = run.Output("ds", {shape[0], c});
        run.graph().AddOp(OpType::kScaleChannels, {tx, ts}, {y}, NoAttrs{}, "scale");
        run.graph().AddOp(OpType::kScaleChannelsGrad, {tdy, tx, ts}, {dx, ds}, NoAttrs{}, "grad");
        run.Run();
        Doubles want_y, want_dx, want_ds(s.size());
        for (size_t i = 0; i < x.size(); ++i) {
          const size_t at = i / static_cast<size_t>(per_image) * static_cast<size_t>(c) +
                            i % static_cast<size_t>(c);
          want_y.push_back(D(x[i]) * D(s[at]));
          want_dx.push_back(D(dy[i]) * D(s[at]));
          want_ds[at] += D(dy[i]) * D(x[i]);
        }
        CheckClose("y", run.Floats(y), want_y, Tolerance(type));
        CheckClose("dx", run.Floats(dx), want_dx, Tolerance(type));
        CheckClose("ds", run.Floats(ds), want_ds, Tolerance(type));
      }
    }
  }
}

TEST_CASE("L2 norm over channels and its gradients", "[nn]") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      for (const Shape& shape : {Shape{2, 4, 5, 6}, Shape{1, 38, 38, 512}, Shape{1, 1, 1, 1}}) {
        INFO(backend->name() << " " << DTypeName(type) << " " << ShapeText(shape));
        const auto c = static_cast<size_t>(shape[3]);
        const auto x = Values(NumElements(shape), 1, type),
                   dy = Values(NumElements(shape), 2, type);
        const auto scale = Values(shape[3], 3, DType::kF32, 10, 20);
        OpRunner run(*backend, type);
        const TensorId tx = run.Input("x", shape, x), tdy = run.Input("dy", shape, dy);
        const TensorId ts = run.InputF32("scale", {shape[3]}, scale);
        const TensorId y = run.Output("y", shape), dx = run.Output("dx", shape);
        const TensorId dscale = run.Output("dscale", {shape[3]}, DType::kF32);
        run.graph().AddOp(OpType::kL2Norm, {tx, ts}, {y}, NoAttrs{}, "l2");
        run.graph().AddOp(OpType::kL2NormGrad, {tdy, tx, ts}, {dx, dscale}, NoAttrs{}, "grad");
        run.Run();
        Doubles want_y(x.size()), want_dx(x.size()), want_dscale(c);
        for (size_t row = 0; row < x.size(); row += c) {
          double square = 0, dot = 0;
          for (size_t k = 0; k < c; ++k) {
            square += D(x[row + k]) * D(x[row + k]);
            dot += D(scale[k]) * D(dy[row + k]) * D(x[row + k]);
          }
          const double norm = std::sqrt(square);
          for (size_t k = 0; k < c; ++k) {
            want_y[row + k] = D(scale[k]) * D(x[row + k]) / norm;
            want_dx[row + k] =
                D(scale[k]) * D(dy[row + k]) / norm - D(x[row + k]) * dot / (square * norm);
            want_dscale[k] += D(dy[row + k]) * D(x[row + k]) / norm;
          }
        }
        CheckClose("y", run.Floats(y), want_y, Tolerance(type));
        // One channel: the gradient is 0, the difference of two products of about 20.
        if (c > 1) CheckClose("dx", run.Floats(dx), want_dx, Tolerance(type));
        CheckClose("dscale", run.Floats(dscale), want_dscale, Tolerance(DType::kF32));
      }
    }
  }
}

TEST_CASE("L2 norm of a pixel that is zero stays finite", "[nn]") {
  for (Backend* backend : TestBackends()) {
    OpRunner run(*backend);
    const TensorId x = run.Input("x", {1, 1, 1, 2}, {0, 0});
    const TensorId dy = run.Input("dy", {1, 1, 1, 2}, {0, 0});
    const TensorId scale = run.InputF32("scale", {2}, {20, 20});
    const TensorId y = run.Output("y", {1, 1, 1, 2}), dx = run.Output("dx", {1, 1, 1, 2});
    const TensorId dscale = run.Output("dscale", {2}, DType::kF32);
    run.graph().AddOp(OpType::kL2Norm, {x, scale}, {y}, NoAttrs{}, "l2");
    run.graph().AddOp(OpType::kL2NormGrad, {dy, x, scale}, {dx, dscale}, NoAttrs{}, "grad");
    run.Run();
    INFO(backend->name());
    CHECK(run.Floats(y) == std::vector<float>{0, 0});
    CHECK(run.Floats(dx) == std::vector<float>{0, 0});
    CHECK(run.Floats(dscale) == std::vector<float>{0, 0});
  }
}

namespace {

struct Loss {
  double loss = 0;
  Doubles gradient;
};

Loss ReferenceLoss(const std::vector<float>& z, const std::vector<int32_t>& labels, size_t classes,
                   double smoothing, double loss_scale) {
  Loss r;
  r.gradient.resize(z.size());
  double counted = 0;
  for (int32_t label : labels) counted += label >= 0 && static_cast<size_t>(label) < classes;
  for (size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] < 0 || static_cast<size_t>(labels[row]) >= classes) continue;
    double sum = 0;
    for (size_t k = 0; k < classes; ++k) sum += std::exp(D(z[row * classes + k]));
    for (size_t k = 0; k < classes; ++k) {
      const double q = smoothing / static_cast<double>(classes) +
                       (k == static_cast<size_t>(labels[row]) ? 1 - smoothing : 0);
      const double p = std::exp(D(z[row * classes + k])) / sum;
      r.loss -= q * std::log(p) / counted;
      r.gradient[row * classes + k] = (p - q) / counted * loss_scale;
    }
  }
  return r;
}

}  // namespace

TEST_CASE("softmax cross-entropy, its gradient and its counts", "[nn]") {
  for (Backend* backend : TestBackends()) {
    for (DType type : TestTypes(*backend)) {
      for (double smoothing : {0.0, 0.1}) {
        for (size_t classes : {2, 7, 1000}) {
          INFO(backend->name() << " " << DTypeName(type) << " " << classes);
          const int64_t n = 9, k = static_cast<int64_t>(classes);
          const auto z = Values(n * k, 1, type, -4, 4);
          std::vector<int32_t> labels;
          for (int32_t i = 0; i < n; ++i) labels.push_back(i * 5 % static_cast<int32_t>(classes));
          labels[3] = -1;  // a row that doesn't count
          labels[5] = static_cast<int32_t>(classes);
          OpRunner run(*backend, type);
          const TensorId tz = run.Input("z", {n, k}, z), tl = run.InputI32("labels", {n}, labels);
          const TensorId scale = run.InputF32("scale", {1}, {8});
          const TensorId loss = run.Output("loss", {1}, DType::kF32);
          const TensorId dz = run.Output("dz", {n, k});
          const TensorId correct = run.Output("correct", {2}, DType::kI32);
          run.graph().AddOp(OpType::kSoftmaxCrossEntropy, {tz, tl, scale}, {loss, dz, correct},
                            CrossEntropyAttrs{static_cast<float>(smoothing)}, "loss");
          run.Run();
          const Loss want = ReferenceLoss(z, labels, classes, D(static_cast<float>(smoothing)), 8);
          CheckClose("loss", run.Floats(loss), {want.loss}, Tolerance(DType::kF32));
          CheckClose("dlogits", run.Floats(dz), want.gradient, Tolerance(type));
          std::vector<int32_t> counts(2);
          for (size_t row = 0; row < 9; ++row) {
            if (row == 3 || row == 5) continue;
            const auto label = static_cast<size_t>(labels[row]);
            size_t rank = 0;
            for (size_t c = 0; c < classes; ++c) {
              const float a = z[row * classes + c], b = z[row * classes + label];
              rank += a > b || (a == b && c < label);
            }
            counts[0] += rank < 1;
            counts[1] += rank < 5;
          }
          CHECK(run.Ints(correct) == counts);
        }
      }
    }
  }
}

TEST_CASE("softmax cross-entropy of large and of no usable rows", "[nn]") {
  for (Backend* backend : TestBackends()) {
    INFO(backend->name());
    OpRunner run(*backend);
    const TensorId z = run.Input("z", {2, 3}, {1e4f, -1e4f, 0, 5, 5, 5});
    const TensorId labels = run.InputI32("labels", {2}, {0, 2});
    const TensorId none = run.InputI32("none", {2}, {-1, 7});
    const TensorId loss = run.Output("loss", {1}, DType::kF32), dz = run.Output("dz", {2, 3});
    const TensorId correct = run.Output("correct", {2}, DType::kI32);
    const TensorId loss0 = run.Output("loss0", {1}, DType::kF32), dz0 = run.Output("dz0", {2, 3});
    run.graph().AddOp(OpType::kSoftmaxCrossEntropy, {z, labels}, {loss, dz, correct},
                      CrossEntropyAttrs{}, "loss");
    run.graph().AddOp(OpType::kSoftmaxCrossEntropy, {z, none}, {loss0, dz0, kNoTensor},
                      CrossEntropyAttrs{}, "loss0");
    run.Run();
    CheckClose("loss", run.Floats(loss), {std::log(3.0) / 2}, 1e-6);
    CheckClose("dz", run.Floats(dz), {0, 0, 0, 1.0 / 6, 1.0 / 6, -1.0 / 3}, 1e-6);
    CHECK(run.Ints(correct) == std::vector<int32_t>{1, 2});  // of equal logits the first wins
    CHECK(run.Floats(loss0) == std::vector<float>{0});
    CHECK(run.Floats(dz0) == std::vector<float>(6, 0));
  }
}

}  // namespace xp::graph
