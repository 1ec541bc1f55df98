// Objectness (binary cross entropy with logits) and box regression (smooth L1) of the sampled
// anchors, and the gradients of both. torchvision 0.26, models/detection/rpn.py, compute_loss.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/smooth_l1.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph::cpu {

namespace {

class RpnLoss final : public Kernel {
 public:
  RpnLoss(const Graph& g, const Op& op)
      : attrs_(std::get<RpnLossAttrs>(op.attrs)),
        anchors_(MakeAnchors(op, attrs_.levels)),
        images_(CheckRpnMaps(g, op, attrs_.levels)),
        samples_(static_cast<int>(g.tensor(op.inputs[2 * attrs_.levels.size()]).shape[1])) {}

  void Run(const KernelArgs& args) override {
    size_t levels = static_cast<size_t>(anchors_.grid.levels);
    const int32_t* counts = args.In<int32_t>(2 * levels + 2);
    bool scaled = args.in.size() > 2 * levels + 3 && args.in[2 * levels + 3] != nullptr;
    float scale = scaled ? *args.In<float>(2 * levels + 3) : 1.0f;
    int64_t sampled = 0;
    for (int n = 0; n < images_; ++n) sampled += counts[2 * n] + counts[2 * n + 1];
    Clear(args);
    inverse_ = 1.0f / static_cast<float>(std::max<int64_t>(sampled, 1));
    double objectness = 0, box = 0;
    for (int n = 0; n < images_; ++n) AddImage(args, n, inverse_ * scale, &objectness, &box);
    args.Out<float>(0)[0] = static_cast<float>(objectness) * inverse_;
    args.Out<float>(0)[1] = static_cast<float>(box) * inverse_;
  }

 private:
  void Clear(const KernelArgs& args) const {
    size_t levels = static_cast<size_t>(anchors_.grid.levels);
    for (size_t l = 0; l < levels; ++l) {
      size_t anchors = static_cast<size_t>(anchors_.grid.count(static_cast<int>(l))) *
                       static_cast<size_t>(images_);
      if (args.out[1 + l] != nullptr) std::memset(args.out[1 + l], 0, anchors * sizeof(float));
      if (args.out[1 + levels + l] != nullptr) {
        std::memset(args.out[1 + levels + l], 0, anchors * 4 * sizeof(float));
      }
    }
  }

  void AddImage(const KernelArgs& args, int n, float gradient, double* objectness, double* box) {
    size_t levels = static_cast<size_t>(anchors_.grid.levels);
    size_t row = static_cast<size_t>(n) * static_cast<size_t>(samples_);
    const int32_t* sampled = args.In<int32_t>(2 * levels) + row;
    const float* targets = args.In<float>(2 * levels + 1) + row * 4;
    const int32_t* counts = args.In<int32_t>(2 * levels + 2) + 2 * n;
    int positives = counts[0], all = std::min(counts[0] + counts[1], samples_);
    for (int i = 0; i < all; ++i) {
      int level = kernels::LevelOf(anchors_.grid, sampled[i]);
      size_t l = static_cast<size_t>(level);
      size_t at = static_cast<size_t>(n) * static_cast<size_t>(anchors_.grid.count(level)) +
                  static_cast<size_t>(sampled[i] - anchors_.grid.first[level]);
      float x = args.In<float>(l)[at], label = i < positives ? 1.0f : 0.0f;
      float e = std::exp(-std::fabs(x));
      *objectness += std::max(x, 0.0f) - x * label + std::log1p(e);
      float sigmoid = x >= 0 ? 1 / (1 + e) : e / (1 + e);
      if (args.out[1 + l] != nullptr) args.Out<float>(1 + l)[at] = (sigmoid - label) * gradient;
      if (i >= positives) continue;
      const float* predicted = args.In<float>(levels + l) + at * 4;
      float* dbox = args.Out<float>(1 + levels + l);
      for (size_t c = 0; c < 4; ++c) {
        SmoothL1 loss =
            SmoothL1Of(predicted[c] - targets[static_cast<size_t>(i) * 4 + c], attrs_.beta);
        *box += loss.value;
        if (dbox != nullptr) dbox[at * 4 + c] = loss.slope * gradient;
      }
    }
  }

  RpnLossAttrs attrs_;
  Anchors anchors_;
  int images_, samples_;
  float inverse_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> MakeRpnLoss(const Context&, const Graph& g, const Op& op) {
  return std::make_unique<RpnLoss>(g, op);
}

}  // namespace xp::graph::cpu
