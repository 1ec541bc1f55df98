// Which proposals a step trains the box head on, and towards what.
// torchvision 0.26, models/detection/roi_heads.py, select_training_samples.
#include <algorithm>

#include "src/graph/cpu/box_matching.h"
#include "src/graph/cpu/kernel.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph::cpu {

namespace {

using kernels::Box;

class RoiTargets final : public Kernel {
 public:
  RoiTargets(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        shapes_(RoiTargetShapes(g, op)),
        attrs_(std::get<RoiTargetAttrs>(op.attrs)) {}

  void Run(const KernelArgs& args) override {
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
    for (int n = 0; n < shapes_.images; ++n) RunImage(args, n);
  }

 private:
  void RunImage(const KernelArgs& args, int n) const {
    size_t image = static_cast<size_t>(n), capacity = static_cast<size_t>(shapes_.proposals);
    const Box* proposals = args.In<Box>(0) + image * capacity;
    const Box* gt = args.In<Box>(2) + image * static_cast<size_t>(shapes_.boxes);
    const int32_t* gt_labels = args.In<int32_t>(3) + image * static_cast<size_t>(shapes_.boxes);
    kernels::StepKey key = kernels::ReadStepKey(args.In<uint32_t>(5));
    int proposal_count = std::clamp(args.In<int32_t>(1)[n], 0, shapes_.proposals);
    int gt_count = std::clamp(args.In<int32_t>(4)[n], 0, shapes_.boxes);
    std::span<const Box> truth(gt, static_cast<size_t>(gt_count));

    // Elements are numbered by where they stand: proposals, then (from P on) ground truth.
    std::vector<Box> boxes(proposals, proposals + proposal_count);
    std::vector<int32_t> element(boxes.size());
    for (size_t i = 0; i < element.size(); ++i) element[i] = static_cast<int32_t>(i);
    for (int g = 0; attrs_.add_ground_truth && g < gt_count; ++g) {
      if (!kernels::HasArea(gt[g])) continue;
      boxes.push_back(gt[g]);
      element.push_back(shapes_.proposals + g);
    }
    std::vector<int32_t> matched(boxes.size());
    MatchBoxes(1, boxes, truth, ToParams(attrs_.matcher), matched.data());

    std::vector<int32_t> match_of(capacity + static_cast<size_t>(shapes_.boxes));
    std::vector<int32_t> positives, negatives;
    for (size_t i = 0; i < boxes.size(); ++i) {
      match_of[static_cast<size_t>(element[i])] = matched[i];
      if (matched[i] >= 0) positives.push_back(element[i]);
      if (matched[i] == kernels::kBackground) negatives.push_back(element[i]);
    }
    std::vector<uint32_t> keys =
        DrawKeys(key, RandomPurpose::kRoiSample, n, shapes_.proposals + shapes_.boxes);
    KeepSmallest(positives, keys, MaxPositives(shapes_.samples, attrs_.positive_fraction));
    KeepSmallest(negatives, keys, shapes_.samples - static_cast<int>(positives.size()));

    size_t row = image * static_cast<size_t>(shapes_.samples);
    Box* rois = args.Out<Box>(0) + row;
    int32_t* labels = args.Out<int32_t>(1) + row;
    kernels::BoxDeltas* targets = args.Out<kernels::BoxDeltas>(2) + row;
    std::fill(rois, rois + shapes_.samples, Box{});
    std::fill(labels, labels + shapes_.samples, -1);
    std::fill(targets, targets + shapes_.samples, kernels::BoxDeltas{});
    kernels::CoderParams coder = ToParams(attrs_.coder);
    size_t out = 0;
    auto box_of = [&](int32_t e) {
      return e < shapes_.proposals ? proposals[e] : gt[e - shapes_.proposals];
    };
    for (int32_t e : positives) {
      int g = match_of[static_cast<size_t>(e)];
      rois[out] = box_of(e);
      labels[out] = ClassColumn(gt_labels[g], attrs_.background);
      targets[out] = kernels::Encode(rois[out], gt[g], coder);
      ++out;
    }
    for (int32_t e : negatives) {
      rois[out] = box_of(e);
      labels[out++] = attrs_.background;
    }
    args.Out<int32_t>(3)[2 * n] = static_cast<int32_t>(positives.size());
    args.Out<int32_t>(3)[2 * n + 1] = static_cast<int32_t>(negatives.size());
  }

  int threads_;
  TargetShapes shapes_;
  RoiTargetAttrs attrs_;
};

}  // namespace

std::unique_ptr<Kernel> MakeRoiTargets(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<RoiTargets>(context, g, op);
}

}  // namespace xp::graph::cpu
