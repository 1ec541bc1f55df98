// Targets and loss of the single shot detector: every default box is matched, negatives are the
// hardest ones of each image. torchvision 0.26, models/detection/ssd.py (SSDMatcher, compute_loss).
#include <algorithm>
#include <cstring>

#include "src/graph/cpu/box_matching.h"
#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/smooth_l1.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph::cpu {

namespace {

using kernels::Box;

std::vector<Box> DefaultBoxes(const SsdAttrs& attrs) {
  std::vector<Box> boxes(attrs.boxes.size() / 4);
  if (!boxes.empty()) std::memcpy(boxes.data(), attrs.boxes.data(), boxes.size() * sizeof(Box));
  return boxes;
}

class SsdTargets final : public Kernel {
 public:
  SsdTargets(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        attrs_(std::get<SsdAttrs>(op.attrs)),
        s_(MakeSsdShapes(g, op)),
        boxes_(DefaultBoxes(attrs_)) {}

  void Run(const KernelArgs& args) override {
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
    for (int n = 0; n < s_.images; ++n) RunImage(args, n);
  }

 private:
  void RunImage(const KernelArgs& args, int n) const {
    size_t image = static_cast<size_t>(n);
    int gt_count = std::clamp(args.In<int32_t>(2)[n], 0, s_.gt_boxes);
    std::span<const Box> truth(args.In<Box>(0) + image * static_cast<size_t>(s_.gt_boxes),
                               static_cast<size_t>(gt_count));
    int32_t* matched = args.Out<int32_t>(0) + image * static_cast<size_t>(s_.boxes);
    kernels::MatchParams params = ToParams(attrs_.matcher);
    params.low_quality = false;
    MatchBoxes(1, boxes_, truth, params, matched);
    for (int i = 0; i < s_.boxes; ++i) matched[i] = std::max(matched[i], kernels::kBackground);
    // Each ground truth takes the one box that it overlaps most (ties: the first), and the later
    // ground truth wins.
    for (size_t g = 0; attrs_.matcher.low_quality && g < truth.size(); ++g) {
      float best = 0;
      size_t at = 0;
      for (size_t i = 0; i < boxes_.size(); ++i) {
        float iou = kernels::Iou(truth[g], boxes_[i]);
        if (iou > best) {
          best = iou;
          at = i;
        }
      }
      if (best > 0 && best >= params.low_quality_min) matched[at] = static_cast<int32_t>(g);
    }
    args.Out<int32_t>(1)[n] = static_cast<int32_t>(
        std::count_if(matched, matched + s_.boxes, [](int m) { return m >= 0; }));
  }

  int threads_;
  SsdAttrs attrs_;
  SsdShapes s_;
  std::vector<Box> boxes_;
};

class SsdLoss final : public Kernel {
 public:
  SsdLoss(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        attrs_(std::get<SsdAttrs>(op.attrs)),
        s_(MakeSsdShapes(g, op)),
        boxes_(DefaultBoxes(attrs_)) {}

  void Run(const KernelArgs& args) override {
    size_t levels = attrs_.levels.size();
    const int32_t* counts = args.In<int32_t>(2 * levels + 1);
    int64_t positives = 0;
    for (int n = 0; n < s_.images; ++n) positives += counts[n];
    bool scaled = args.in.size() > 2 * levels + 4 && args.in[2 * levels + 4] != nullptr;
    float inverse = 1.0f / static_cast<float>(std::max<int64_t>(positives, 1));
    float gradient = scaled ? inverse * *args.In<float>(2 * levels + 4) : inverse;
    std::vector<double> cls(static_cast<size_t>(s_.images)), box(static_cast<size_t>(s_.images));
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
    for (int n = 0; n < s_.images; ++n) {
      RunImage(args, n, gradient, &cls[static_cast<size_t>(n)], &box[static_cast<size_t>(n)]);
    }
    double cls_sum = 0, box_sum = 0;
    for (double v : cls) cls_sum += v;
    for (double v : box) box_sum += v;
    args.Out<float>(0)[0] = static_cast<float>(cls_sum) * inverse;
    args.Out<float>(0)[1] = static_cast<float>(box_sum) * inverse;
  }

 private:
  // Where the numbers of default box `i` of image n are: level and index among the level's boxes of
  // all images.
  std::pair<size_t, size_t> Place(int n, int i) const {
    int level = kernels::LevelOf(s_.grid, i);
    return {static_cast<size_t>(level),
            static_cast<size_t>(n) * static_cast<size_t>(s_.grid.count(level)) +
                static_cast<size_t>(i - s_.grid.first[level])};
  }

  const int32_t* Matched(const KernelArgs& args, int n) const {
    return args.In<int32_t>(2 * attrs_.levels.size()) +
           static_cast<size_t>(n) * static_cast<size_t>(s_.boxes);
  }

  void RunImage(const KernelArgs& args, int n, float gradient, double* cls, double* box) const {
    size_t levels = attrs_.levels.size(), columns = static_cast<size_t>(s_.columns);
    const int32_t* matched = Matched(args, n);
    const int32_t* gt_labels = args.In<int32_t>(2 * levels + 3) +
                               static_cast<size_t>(n) * static_cast<size_t>(s_.gt_boxes);
    std::vector<float> loss(static_cast<size_t>(s_.boxes));
    std::vector<bool> taken(static_cast<size_t>(s_.boxes));
    std::vector<uint64_t> negatives;
    for (int i = 0; i < s_.boxes; ++i) {
      size_t at = static_cast<size_t>(i);
      loss[at] = CrossEntropy(args, n, i, Target(gt_labels, matched[i]));
      taken[at] = matched[i] >= 0;
      if (!taken[at]) negatives.push_back(RankKey(loss[at], static_cast<uint32_t>(i)));
    }
    float positives = static_cast<float>(args.In<int32_t>(2 * levels + 1)[n]);
    KeepBest(negatives, static_cast<int>(attrs_.negative_ratio * positives));
    for (uint64_t key : negatives) taken[RankNumber(key)] = true;

    for (int i = 0; i < s_.boxes; ++i) {
      auto [level, place] = Place(n, i);
      float* dcls = args.Out<float>(1 + level) + place * columns;
      float* dbox = args.Out<float>(1 + levels + level) + place * 4;
      std::fill(dcls, dcls + columns, 0.0f);
      std::fill(dbox, dbox + 4, 0.0f);
      if (!taken[static_cast<size_t>(i)]) continue;
      *cls += loss[static_cast<size_t>(i)];
      CrossEntropyGrad(args.In<float>(level) + place * columns, Target(gt_labels, matched[i]),
                       gradient, dcls);
      if (matched[i] >= 0) *box += Regression(args, n, i, gradient, dbox);
    }
  }

  int Target(const int32_t* gt_labels, int matched) const {
    return matched < 0 ? 0 : std::clamp(gt_labels[matched] + 1, 0, s_.columns - 1);
  }

  // With the portable functions, since the hardest negatives are found by it.
  float CrossEntropy(const KernelArgs& args, int n, int i, int target) const {
    auto [level, place] = Place(n, i);
    const float* x = args.In<float>(level) + place * static_cast<size_t>(s_.columns);
    float most = x[0];
    for (int k = 1; k < s_.columns; ++k) most = x[k] > most ? x[k] : most;
    float sum = 0;
    for (int k = 0; k < s_.columns; ++k) sum += kernels::PortableExp(x[k] - most);
    return kernels::PortableLog(sum) + (most - x[target]);
  }

  void CrossEntropyGrad(const float* x, int target, float gradient, float* dx) const {
    float most = *std::max_element(x, x + s_.columns);
    float sum = 0;
    for (int k = 0; k < s_.columns; ++k) {
      dx[k] = kernels::PortableExp(x[k] - most);
      sum += dx[k];
    }
    float share = gradient / sum;
    for (int k = 0; k < s_.columns; ++k) dx[k] *= share;
    dx[target] -= gradient;
  }

  float Regression(const KernelArgs& args, int n, int i, float gradient, float* dx) const {
    size_t levels = attrs_.levels.size();
    auto [level, place] = Place(n, i);
    const Box* gt =
        args.In<Box>(2 * levels + 2) + static_cast<size_t>(n) * static_cast<size_t>(s_.gt_boxes);
    kernels::BoxDeltas d = kernels::Encode(boxes_[static_cast<size_t>(i)], gt[Matched(args, n)[i]],
                                           ToParams(attrs_.coder));
    const float* x = args.In<float>(levels + level) + place * 4;
    const float target[4] = {d.dx, d.dy, d.dw, d.dh};
    float sum = 0;
    for (int c = 0; c < 4; ++c) {
      SmoothL1 loss = SmoothL1Of(x[c] - target[c], attrs_.beta);
      sum += loss.value;
      dx[c] = loss.slope * gradient;
    }
    return sum;
  }

  int threads_;
  SsdAttrs attrs_;
  SsdShapes s_;
  std::vector<Box> boxes_;
};

}  // namespace

std::unique_ptr<Kernel> MakeSsdTargets(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<SsdTargets>(context, g, op);
}

std::unique_ptr<Kernel> MakeSsdLoss(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<SsdLoss>(context, g, op);
}

}  // namespace xp::graph::cpu
