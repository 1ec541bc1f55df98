// Softmax cross-entropy with label smoothing, its gradient and the top-1 and top-5 counts.
#include <algorithm>
#include <cmath>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"

namespace xp::graph::cpu {
namespace {

class SoftmaxCrossEntropy : public Kernel {
 public:
  SoftmaxCrossEntropy(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        shape_(AsRows(InputOf(g, op, 0))),
        smoothing_(static_cast<double>(std::get<CrossEntropyAttrs>(op.attrs).label_smoothing)),
        loss_scale_(HasInput(op, 2)),
        gradient_(HasOutput(op, 1)),
        correct_(HasOutput(op, 2)) {}

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>(shape_.rows) * (sizeof(double) + sizeof(int32_t));
  }

  void Run(const KernelArgs& args) override {
    const auto* labels = args.In<int32_t>(1);
    auto* losses = static_cast<double*>(args.workspace);
    auto* ranks = reinterpret_cast<int32_t*>(losses + shape_.rows);
    const int64_t counted =
        std::count_if(labels, labels + shape_.rows, [&](int32_t label) { return IsClass(label); });
    const double share = counted == 0 ? 0 : 1.0 / static_cast<double>(counted);
    const double scale = loss_scale_ ? share * static_cast<double>(args.In<float>(2)[0]) : share;
    ParallelFor(threads_, shape_.rows, [&](int64_t row) {
      float* dlogits = gradient_ ? args.Out<float>(1) + row * shape_.channels : nullptr;
      losses[row] =
          Row(args.In<float>(0) + row * shape_.channels, labels[row], scale, dlogits, ranks[row]);
    });
    double total = 0;
    int32_t top1 = 0, top5 = 0;
    for (int64_t row = 0; row < shape_.rows; ++row) {
      total += losses[row];
      top1 += ranks[row] < 1 ? 1 : 0;
      top5 += ranks[row] < 5 ? 1 : 0;
    }
    args.Out<float>(0)[0] = static_cast<float>(total * share);
    if (correct_) {
      args.Out<int32_t>(2)[0] = top1;
      args.Out<int32_t>(2)[1] = top5;
    }
  }

 private:
  static constexpr int32_t kNotCounted = 1 << 30;

  bool IsClass(int32_t label) const { return label >= 0 && label < shape_.channels; }

  // The row's loss. `rank`: how many logits come before the label's; of equal ones the lower index.
  double Row(const float* logits, int32_t label, double scale, float* dlogits,
             int32_t& rank) const {
    const int64_t classes = shape_.channels;
    rank = kNotCounted;
    if (!IsClass(label)) {
      if (dlogits != nullptr) std::fill(dlogits, dlogits + classes, 0.0f);
      return 0;
    }
    const auto largest = static_cast<double>(*std::max_element(logits, logits + classes));
    double sum = 0, total = 0;
    for (int64_t k = 0; k < classes; ++k) {
      const double z = static_cast<double>(logits[k]) - largest;
      sum += std::exp(z);
      total += z;
    }
    const double log_sum = std::log(sum), uniform = smoothing_ / static_cast<double>(classes);
    const double own = static_cast<double>(logits[label]) - largest;
    if (!std::isnan(own)) rank = RankOf(logits, label);
    if (dlogits != nullptr) {
      for (int64_t k = 0; k < classes; ++k) {
        const double p = std::exp(static_cast<double>(logits[k]) - largest - log_sum);
        const double target = uniform + (k == label ? 1 - smoothing_ : 0);
        dlogits[k] = static_cast<float>((p - target) * scale);
      }
    }
    const double loss = (1 - smoothing_) * (log_sum - own);
    // Without smoothing the other classes don't matter, even where a logit is -infinity.
    return smoothing_ == 0 ? loss
                           : loss + uniform * (static_cast<double>(classes) * log_sum - total);
  }

  int32_t RankOf(const float* logits, int32_t label) const {
    int32_t rank = 0;
    for (int64_t k = 0; k < shape_.channels; ++k) {
      rank += logits[k] > logits[label] || (logits[k] == logits[label] && k < label) ? 1 : 0;
    }
    return rank;
  }

  int threads_;
  Rows shape_;
  double smoothing_;
  bool loss_scale_, gradient_, correct_;
};

}  // namespace

std::unique_ptr<Kernel> MakeSoftmaxCrossEntropy(const Context& context, const Graph& g,
                                                const Op& op) {
  return std::make_unique<SoftmaxCrossEntropy>(context, g, op);
}

}  // namespace xp::graph::cpu
