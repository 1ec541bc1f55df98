// Which anchors a step trains the region proposal network on, and towards what.
#include <algorithm>

#include "src/graph/cpu/box_matching.h"
#include "src/graph/cpu/kernel.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph::cpu {

namespace {

using kernels::Box;

class RpnTargets final : public Kernel {
 public:
  RpnTargets(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        shapes_(RpnTargetShapes(g, op)),
        attrs_(std::get<RpnTargetAttrs>(op.attrs)) {
    Anchors anchors = MakeAnchors(op, attrs_.levels);
    for (int l = 0; l < anchors.grid.levels; ++l) {
      for (int i = 0; i < anchors.grid.count(l); ++i) {
        anchors_.push_back(kernels::AnchorAt(anchors.grid, l, i));
      }
    }
  }

  void Run(const KernelArgs& args) override {
    const Box* gt = args.In<Box>(0);
    const int32_t* gt_counts = args.In<int32_t>(1);
    kernels::StepKey key = kernels::ReadStepKey(args.In<uint32_t>(2));
    size_t samples = static_cast<size_t>(shapes_.samples);
    for (int n = 0; n < shapes_.images; ++n) {
      size_t image = static_cast<size_t>(n);
      int count = std::clamp(gt_counts[n], 0, shapes_.boxes);
      std::span<const Box> truth(gt + image * static_cast<size_t>(shapes_.boxes),
                                 static_cast<size_t>(count));
      RunImage(n, truth, key, args.Out<int32_t>(0) + image * samples,
               args.Out<kernels::BoxDeltas>(1) + image * samples, args.Out<int32_t>(2) + image * 2);
    }
  }

 private:
  void RunImage(int image, std::span<const Box> truth, const kernels::StepKey& key,
                int32_t* sampled, kernels::BoxDeltas* targets, int32_t* counts) {
    std::vector<int32_t> matched(anchors_.size());
    MatchBoxes(threads_, anchors_, truth, ToParams(attrs_.matcher), matched.data());
    std::vector<int32_t> positives, negatives;
    for (size_t i = 0; i < matched.size(); ++i) {
      if (matched[i] >= 0) positives.push_back(static_cast<int32_t>(i));
      if (matched[i] == kernels::kBackground) negatives.push_back(static_cast<int32_t>(i));
    }
    std::vector<uint32_t> keys =
        DrawKeys(key, RandomPurpose::kRpnSample, image, static_cast<int>(anchors_.size()));
    KeepSmallest(positives, keys, MaxPositives(shapes_.samples, attrs_.positive_fraction));
    KeepSmallest(negatives, keys, shapes_.samples - static_cast<int>(positives.size()));

    kernels::CoderParams coder = ToParams(attrs_.coder);
    std::fill(sampled, sampled + shapes_.samples, -1);
    std::fill(targets, targets + shapes_.samples, kernels::BoxDeltas{});
    for (size_t i = 0; i < positives.size(); ++i) {
      size_t anchor = static_cast<size_t>(positives[i]);
      sampled[i] = positives[i];
      targets[i] =
          kernels::Encode(anchors_[anchor], truth[static_cast<size_t>(matched[anchor])], coder);
    }
    std::copy(negatives.begin(), negatives.end(), sampled + positives.size());
    counts[0] = static_cast<int32_t>(positives.size());
    counts[1] = static_cast<int32_t>(negatives.size());
  }

  int threads_;
  TargetShapes shapes_;
  RpnTargetAttrs attrs_;
  std::vector<Box> anchors_;
};

}  // namespace

std::unique_ptr<Kernel> MakeRpnTargets(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<RpnTargets>(context, g, op);
}

}  // namespace xp::graph::cpu
