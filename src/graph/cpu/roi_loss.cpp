// Classification (cross entropy) and box regression (smooth L1) of the sampled proposals, and the
// gradients of both. torchvision 0.26, models/detection/roi_heads.py, fastrcnn_loss.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/smooth_l1.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph::cpu {

namespace {

class RoiLoss final : public Kernel {
 public:
  RoiLoss(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        attrs_(std::get<RoiLossAttrs>(op.attrs)),
        s_(RoiLossShapes(g, op)) {}

  void Run(const KernelArgs& args) override {
    const int32_t* counts = args.In<int32_t>(4);
    bool scaled = args.in.size() > 5 && args.in[5] != nullptr;
    int64_t sampled = 0;
    for (int n = 0; n < s_.images; ++n) sampled += counts[2 * n] + counts[2 * n + 1];
    float inverse = 1.0f / static_cast<float>(std::max<int64_t>(sampled, 1));
    float gradient = scaled ? inverse * *args.In<float>(5) : inverse;

    int rows = s_.images * s_.rois;
    std::vector<float> cls(static_cast<size_t>(rows)), box(static_cast<size_t>(rows));
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (int r = 0; r < rows; ++r) {
      size_t at = static_cast<size_t>(r);
      int label = args.In<int32_t>(2)[r];
      cls[at] = Classification(args, at, label, gradient);
      box[at] = Regression(args, at, label, gradient);
    }
    double cls_sum = 0, box_sum = 0;
    for (float v : cls) cls_sum += v;
    for (float v : box) box_sum += v;
    args.Out<float>(0)[0] = static_cast<float>(cls_sum) * inverse;
    args.Out<float>(0)[1] = static_cast<float>(box_sum) * inverse;
  }

 private:
  float Classification(const KernelArgs& args, size_t row, int label, float gradient) const {
    size_t columns = static_cast<size_t>(s_.columns);
    const float* x = args.In<float>(0) + row * columns;
    float* dx = args.Out<float>(1) + row * columns;
    if (label < 0 || label >= s_.columns) {
      std::fill(dx, dx + columns, 0.0f);
      return 0;
    }
    float most = *std::max_element(x, x + columns);
    float sum = 0;
    for (size_t k = 0; k < columns; ++k) {
      dx[k] = std::exp(x[k] - most);
      sum += dx[k];
    }
    size_t target = static_cast<size_t>(label);
    float share = gradient / sum;
    for (size_t k = 0; k < columns; ++k) dx[k] *= share;
    dx[target] -= gradient;
    return std::log(sum) + most - x[target];
  }

  float Regression(const KernelArgs& args, size_t row, int label, float gradient) const {
    size_t columns = static_cast<size_t>(s_.delta_columns);
    float* dx = args.Out<float>(2) + row * columns;
    std::fill(dx, dx + columns, 0.0f);
    if (label < 0 || label >= s_.columns || label == attrs_.background) return 0;
    size_t first = attrs_.class_agnostic ? 0 : static_cast<size_t>(label) * 4;
    const float* x = args.In<float>(1) + row * columns + first;
    const float* target = args.In<float>(3) + row * 4;
    float sum = 0;
    for (size_t c = 0; c < 4; ++c) {
      SmoothL1 loss = SmoothL1Of(x[c] - target[c], attrs_.beta);
      sum += loss.value;
      dx[first + c] = loss.slope * gradient;
    }
    return sum;
  }

  int threads_;
  RoiLossAttrs attrs_;
  RoiHeadShapes s_;
};

}  // namespace

std::unique_ptr<Kernel> MakeRoiLoss(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<RoiLoss>(context, g, op);
}

}  // namespace xp::graph::cpu
