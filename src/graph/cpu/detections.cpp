// Scored boxes from the box head. torchvision 0.26, models/detection/roi_heads.py,
// postprocess_detections. Candidates are numbered proposal by proposal, class by class.
#include <algorithm>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/scored_boxes.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph::cpu {

namespace {

class Detections final : public Kernel {
 public:
  Detections(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        attrs_(std::get<DetectionAttrs>(op.attrs)),
        s_(DetectionShapes(g, op)) {}

  void Run(const KernelArgs& args) override {
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
    for (int n = 0; n < s_.images; ++n) RunImage(args, n);
  }

 private:
  void RunImage(const KernelArgs& args, int n) const {
    int count = std::clamp(args.In<int32_t>(3)[n], 0, s_.rois);
    const int32_t* size = args.In<int32_t>(4) + static_cast<ptrdiff_t>(n) * 2;
    std::vector<float> probabilities(static_cast<size_t>(s_.columns));
    std::vector<ScoredBox> candidates;
    for (int i = 0; i < count; ++i) {
      size_t row = static_cast<size_t>(n) * static_cast<size_t>(s_.rois) + static_cast<size_t>(i);
      Softmax(args.In<float>(0) + row * static_cast<size_t>(s_.columns), s_.columns,
              probabilities.data());
      for (int label = 0; label < attrs_.num_classes; ++label) {
        size_t column = static_cast<size_t>(ClassColumn(label, attrs_.background));
        float score = probabilities[column];
        if (!(score > attrs_.min_score)) continue;
        const float* d = args.In<float>(1) + row * static_cast<size_t>(s_.delta_columns) +
                         (attrs_.class_agnostic ? 0 : column * 4);
        kernels::Box box = kernels::Decode(args.In<kernels::Box>(2)[row], {d[0], d[1], d[2], d[3]},
                                           ToParams(attrs_.coder));
        box = kernels::Clip(box, static_cast<float>(size[0]), static_cast<float>(size[1]));
        if (!kernels::IsAtLeast(box, attrs_.min_size)) continue;
        uint32_t number = static_cast<uint32_t>(i * attrs_.num_classes + label);
        candidates.push_back({RankKey(score, number), box, label, score});
      }
    }
    WriteDetections(std::move(candidates), attrs_.nms_iou, attrs_.max_detections, n, args);
  }

  int threads_;
  DetectionAttrs attrs_;
  RoiHeadShapes s_;
};

}  // namespace

std::unique_ptr<Kernel> MakeDetections(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Detections>(context, g, op);
}

}  // namespace xp::graph::cpu
