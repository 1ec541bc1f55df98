// Scored boxes from the single shot detector's maps. torchvision 0.26, models/detection/ssd.py,
// postprocess_detections: the best candidates of each class, then suppression, then the best of
// all. Candidates are numbered default box by default box, class by class.
#include <algorithm>
#include <cstring>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/scored_boxes.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph::cpu {

namespace {

using kernels::Box;

class SsdDetections final : public Kernel {
 public:
  SsdDetections(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads), attrs_(std::get<SsdAttrs>(op.attrs)), s_(MakeSsdShapes(g, op)) {}

  void Run(const KernelArgs& args) override {
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
    for (int n = 0; n < s_.images; ++n) RunImage(args, n);
  }

 private:
  Box DefaultBox(int i) const {
    const float* b = attrs_.boxes.data() + static_cast<size_t>(i) * 4;
    return {b[0], b[1], b[2], b[3]};
  }

  void RunImage(const KernelArgs& args, int n) const {
    size_t levels = attrs_.levels.size(), columns = static_cast<size_t>(s_.columns);
    size_t classes = columns - 1;
    std::vector<std::vector<uint64_t>> keys(classes);
    std::vector<float> all(static_cast<size_t>(s_.boxes) * columns);
    std::vector<Box> boxes(static_cast<size_t>(s_.boxes));
    const int32_t* size = args.In<int32_t>(2 * levels) + static_cast<size_t>(n) * 2;
    for (int i = 0; i < s_.boxes; ++i) {
      int level = kernels::LevelOf(s_.grid, i);
      size_t l = static_cast<size_t>(level);
      size_t place = static_cast<size_t>(n) * static_cast<size_t>(s_.grid.count(level)) +
                     static_cast<size_t>(i - s_.grid.first[level]);
      float* probabilities = &all[static_cast<size_t>(i) * columns];
      Softmax(args.In<float>(l) + place * columns, s_.columns, probabilities);
      const float* d = args.In<float>(levels + l) + place * 4;
      Box box = kernels::Decode(DefaultBox(i), {d[0], d[1], d[2], d[3]}, ToParams(attrs_.coder));
      boxes[static_cast<size_t>(i)] =
          kernels::Clip(box, static_cast<float>(size[0]), static_cast<float>(size[1]));
      if (!kernels::IsAtLeast(boxes[static_cast<size_t>(i)], 0)) continue;  // NaN
      for (size_t k = 0; k < classes; ++k) {
        if (!(probabilities[k + 1] > attrs_.min_score)) continue;
        keys[k].push_back(RankKey(probabilities[k + 1], static_cast<uint32_t>(i)));
      }
    }
    std::vector<ScoredBox> candidates;
    for (size_t k = 0; k < classes; ++k) {
      KeepBest(keys[k], attrs_.candidates);
      for (uint64_t key : keys[k]) {
        size_t i = RankNumber(key);
        float score = all[i * columns + k + 1];
        uint32_t number = static_cast<uint32_t>(i * classes + k);
        candidates.push_back({RankKey(score, number), boxes[i], static_cast<int32_t>(k), score});
      }
    }
    WriteDetections(std::move(candidates), attrs_.nms_iou, attrs_.max_detections, n, args);
  }

  int threads_;
  SsdAttrs attrs_;
  SsdShapes s_;
};

}  // namespace

std::unique_ptr<Kernel> MakeSsdDetections(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<SsdDetections>(context, g, op);
}

}  // namespace xp::graph::cpu
