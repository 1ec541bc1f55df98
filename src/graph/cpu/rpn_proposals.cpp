// From the region proposal network's maps to boxes: the best anchors of each level, decoded,
// clipped, without the small ones, suppressed level by level, the best of an image. torchvision
// 0.26, models/detection/rpn.py, filter_proposals. Order is by logit, which has the order of the
// sigmoid where float's sigmoid would have run out of digits.
#include <algorithm>
#include <array>

#include "src/graph/cpu/box_matching.h"
#include "src/graph/cpu/kernel.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph::cpu {

namespace {

using kernels::Box;
using kernels::BoxDeltas;

struct Candidates {
  std::vector<uint64_t> keys;  // of anchors by number in the image, best first
  std::vector<Box> boxes;
};

class RpnProposals final : public Kernel {
 public:
  RpnProposals(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        attrs_(std::get<RpnProposalAttrs>(op.attrs)),
        anchors_(MakeAnchors(op, attrs_.levels)),
        images_(CheckRpnMaps(g, op, attrs_.levels)),
        capacity_(static_cast<int>(g.tensor(op.outputs[0]).shape[1])) {}

  void Run(const KernelArgs& args) override {
    int levels = anchors_.grid.levels;
    int tasks = images_ * levels;
    std::vector<Candidates> kept(static_cast<size_t>(tasks));
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
    for (int task = 0; task < tasks; ++task) {
      kept[static_cast<size_t>(task)] = Level(args, task / levels, task % levels);
    }
    for (int n = 0; n < images_; ++n) Merge(args, n, &kept[static_cast<size_t>(n * levels)]);
  }

 private:
  Candidates Level(const KernelArgs& args, int n, int level) const {
    const kernels::AnchorGrid& grid = anchors_.grid;
    size_t l = static_cast<size_t>(level), count = static_cast<size_t>(grid.count(level));
    const float* logits = args.In<float>(l) + static_cast<size_t>(n) * count;
    const BoxDeltas* deltas =
        args.In<BoxDeltas>(static_cast<size_t>(grid.levels) + l) + static_cast<size_t>(n) * count;
    const int32_t* size =
        args.In<int32_t>(2 * static_cast<size_t>(grid.levels)) + static_cast<size_t>(n) * 2;
    uint32_t first = static_cast<uint32_t>(grid.first[level]);

    std::vector<uint64_t> keys(count);
    for (size_t i = 0; i < count; ++i) {
      keys[i] = RankKey(logits[i], first + static_cast<uint32_t>(i));
    }
    KeepBest(keys, attrs_.pre_nms);

    Candidates candidates;
    kernels::CoderParams coder = ToParams(attrs_.coder);
    for (uint64_t key : keys) {
      uint32_t index = RankNumber(key) - first;
      Box box = kernels::Decode(kernels::AnchorAt(grid, level, static_cast<int>(index)),
                                deltas[index], coder);
      box = kernels::Clip(box, static_cast<float>(size[0]), static_cast<float>(size[1]));
      if (!kernels::IsAtLeast(box, attrs_.min_size)) continue;
      if (!(kernels::PortableSigmoid(logits[index]) >= attrs_.min_score)) continue;
      candidates.keys.push_back(key);
      candidates.boxes.push_back(box);
    }
    Candidates kept;
    for (int32_t i : Suppress(candidates.boxes, attrs_.nms_iou, capacity_)) {
      kept.keys.push_back(candidates.keys[static_cast<size_t>(i)]);
      kept.boxes.push_back(candidates.boxes[static_cast<size_t>(i)]);
    }
    return kept;
  }

  // The levels' lists are sorted: takes the best head again and again.
  void Merge(const KernelArgs& args, int n, const Candidates* lists) const {
    size_t row = static_cast<size_t>(n) * static_cast<size_t>(capacity_);
    Box* boxes = args.Out<Box>(0) + row;
    float* scores = args.Out<float>(1) + row;
    std::array<size_t, kernels::kMaxLevels> next{};
    int count = 0;
    for (; count < std::min(capacity_, attrs_.post_nms); ++count) {
      int best = -1;
      for (int l = 0; l < anchors_.grid.levels; ++l) {
        size_t at = static_cast<size_t>(l);
        if (next[at] == lists[l].keys.size()) continue;
        if (best < 0 ||
            lists[l].keys[next[at]] > lists[best].keys[next[static_cast<size_t>(best)]]) {
          best = l;
        }
      }
      if (best < 0) break;
      size_t i = next[static_cast<size_t>(best)]++;
      boxes[count] = lists[best].boxes[i];
      scores[count] = kernels::PortableSigmoid(Logit(args, n, best, lists[best].keys[i]));
    }
    std::fill(boxes + count, boxes + capacity_, Box{});
    std::fill(scores + count, scores + capacity_, 0.0f);
    args.Out<int32_t>(2)[n] = count;
  }

  float Logit(const KernelArgs& args, int n, int level, uint64_t key) const {
    size_t count = static_cast<size_t>(anchors_.grid.count(level));
    size_t index = RankNumber(key) - static_cast<uint32_t>(anchors_.grid.first[level]);
    return args.In<float>(static_cast<size_t>(level))[static_cast<size_t>(n) * count + index];
  }

  int threads_;
  RpnProposalAttrs attrs_;
  Anchors anchors_;
  int images_, capacity_;
};

}  // namespace

std::unique_ptr<Kernel> MakeRpnProposals(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<RpnProposals>(context, g, op);
}

}  // namespace xp::graph::cpu
