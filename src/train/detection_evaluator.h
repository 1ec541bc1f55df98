// Runs a detector over a validation set and scores it as COCO does.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "exp/data/loader.h"
#include "exp/graph/program.h"
#include "exp/models/model.h"
#include "exp/train/coco_eval.h"

namespace xp::train {

class DetectionEvaluator {
 public:
  // `arena`: memory of the training programs, which don't run meanwhile; may be null.
  DetectionEvaluator(graph::Backend& backend, const models::Model& model,
                     graph::ParamBuffers& params, graph::DType compute, data::Loader& loader,
                     std::shared_ptr<graph::Buffer> arena);

  // Boxes in pixels of the original images. `stop` may end it early: then the result is partial.
  Detections Detect(const std::atomic<bool>* stop);
  CocoResult Evaluate(const Detections& detections) const;

 private:
  struct Entry {
    models::BatchShape shape;
    std::unique_ptr<graph::Program> program;
  };
  void Collect(graph::Program& program, const data::Batch& batch, Detections& all) const;

  data::Loader& loader_;
  std::vector<Entry> programs_;
};

}  // namespace xp::train
