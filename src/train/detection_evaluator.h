// Runs a detector over a validation set and scores it as COCO does.
#pragma once

#include "exp/data/loader.h"
#include "exp/train/coco_eval.h"
#include "src/train/evaluator.h"

namespace xp::train {

class DetectionEvaluator : public Evaluator {
 public:
  DetectionEvaluator(const EvaluationContext& context, data::Loader& loader);

  void Prefetch() override;
  NamedValues Run(const EvaluationWatch& watch) override;
  // Boxes in pixels of the original images. Partial where it was ended early.
  Detections Detect(const EvaluationWatch& watch);

 private:
  void Collect(const graph::Graph& g, const data::Batch& batch,
               const std::vector<const void*>& values, Detections& all) const;

  data::Loader& loader_;
  bool prefetched_ = false;
  EvaluationPrograms programs_;
};

// As the events and the store name them: the twelve numbers, then "bbox_AP/CLASS" of up to 100.
NamedValues BboxMetrics(const CocoResult& result);

}  // namespace xp::train
