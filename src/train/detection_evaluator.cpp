#include "src/train/detection_evaluator.h"

#include <utility>

namespace xp::train {

using graph::Graph;
using graph::Storage;

namespace {

std::vector<models::BatchShape> ShapesOf(const data::Loader& loader) {
  std::vector<models::BatchShape> shapes;
  for (const data::Bucket& b : loader.Buckets()) shapes.push_back({b.n, b.height, b.width, 0});
  return shapes;
}

}  // namespace

DetectionEvaluator::DetectionEvaluator(const EvaluationContext& context, data::Loader& loader)
    : loader_(loader), programs_(context, ShapesOf(loader)) {}

void DetectionEvaluator::Prefetch() {
  loader_.StartEpoch(0);
  prefetched_ = true;
}

Detections DetectionEvaluator::Detect(const EvaluationWatch& watch) {
  Detections all;
  if (!std::exchange(prefetched_, false)) loader_.StartEpoch(0);
  programs_.EachBatch(
      [&](data::Batch* batch) { return loader_.Next(batch); },
      {"boxes", "scores", "labels", "counts"}, watch,
      [&](const Graph& g, const data::Batch& batch, const std::vector<const void*>& values) {
        Collect(g, batch, values, all);
      });
  return all;
}

void DetectionEvaluator::Collect(const Graph& g, const data::Batch& batch,
                                 const std::vector<const void*>& values, Detections& all) const {
  const auto* box = static_cast<const float*>(values[0]);
  const auto* score = static_cast<const float*>(values[1]);
  const auto* label = static_cast<const int32_t*>(values[2]);
  const auto* count = static_cast<const int32_t*>(values[3]);
  int64_t capacity = g.tensor(g.Find("scores", Storage::kOutput)).shape[1];
  const auto& categories = loader_.dataset().categories;
  for (int i = 0; i < batch.n; ++i) {
    const auto n = static_cast<size_t>(i);
    if (batch.left_out[n] != 0) continue;
    double sx = batch.scale_factors[2 * n], sy = batch.scale_factors[2 * n + 1];
    bool mirrored = (batch.flips[n] & 1) != 0;
    double width = batch.image_sizes[2 * n + 1];
    for (int64_t k = i * capacity; k < i * capacity + count[i]; ++k) {
      const float* b = box + 4 * k;
      // A mirrored image is as wide as its resized self, whatever the padding.
      double left = mirrored ? width - b[2] : b[0], right = mirrored ? width - b[0] : b[2];
      double x = left / sx, y = b[1] / sy;
      all.Add(batch.image_ids[n], {x, y, right / sx - x, b[3] / sy - y}, score[k],
              categories[static_cast<size_t>(label[k])].id);
    }
  }
}

NamedValues DetectionEvaluator::Run(const EvaluationWatch& watch) {
  Detections detections = Detect(watch);
  if (Stopped(watch.stop)) return {};
  return BboxMetrics(EvaluateBbox(loader_.dataset(), detections));
}

NamedValues BboxMetrics(const CocoResult& result) {
  NamedValues metrics;
  for (size_t i = 0; i < result.stats.size(); ++i)
    metrics.emplace_back(kCocoStatNames[i], result.stats[i]);
  for (const ClassResult& c : result.classes) {
    if (result.classes.size() <= 100) metrics.emplace_back("bbox_AP/" + c.name, c.ap);
  }
  return metrics;
}

}  // namespace xp::train
