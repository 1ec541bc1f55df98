#include "src/train/detection_evaluator.h"

#include <algorithm>
#include <stdexcept>

#include "exp/graph/passes.h"

namespace xp::train {

using graph::Graph;
using graph::Program;
using graph::Storage;

DetectionEvaluator::DetectionEvaluator(graph::Backend& backend, const models::Model& model,
                                       graph::ParamBuffers& params, graph::DType compute,
                                       data::Loader& loader, std::shared_ptr<graph::Buffer> arena)
    : loader_(loader) {
  for (const data::Bucket& bucket : loader.Buckets()) {
    models::BatchShape shape{bucket.n, bucket.height, bucket.width, 0};
    Graph g(std::make_shared<graph::ParamLayout>(params.layout()), compute);
    model.BuildEvaluation(g, shape);
    graph::RunPasses(g, {});
    programs_.push_back({shape, std::make_unique<Program>(backend, std::move(g), params, arena)});
    arena = programs_.back().program->arena();
  }
}

Detections DetectionEvaluator::Detect(const std::atomic<bool>* stop) {
  Detections all;
  data::Batch batch;
  loader_.StartEpoch(0);
  while (loader_.Next(&batch)) {
    if (stop != nullptr && stop->load()) break;
    auto entry = std::find_if(programs_.begin(), programs_.end(), [&](const Entry& e) {
      return e.shape.n == batch.n && e.shape.height == batch.height && e.shape.width == batch.width;
    });
    if (entry == programs_.end())
      throw std::logic_error("the loader gave a batch shape that it didn't announce");
    Program& program = *entry->program;
    program.SetInput("images", batch.images.data(), batch.images.size());
    program.SetInput("sizes", batch.image_sizes.data(), batch.image_sizes.size() * sizeof(int32_t));
    program.Run();
    Collect(program, batch, all);
  }
  return all;
}

void DetectionEvaluator::Collect(Program& program, const data::Batch& batch,
                                 Detections& all) const {
  const Graph& g = program.graph();
  auto read = [&](const char* name) { return program.ReadAsync(g.Find(name, Storage::kOutput)); };
  auto boxes = read("boxes"), scores = read("scores"), labels = read("labels"),
       counts = read("counts");
  const auto* count = static_cast<const int32_t*>(counts->Wait());
  const auto* box = static_cast<const float*>(boxes->Wait());
  const auto* score = static_cast<const float*>(scores->Wait());
  const auto* label = static_cast<const int32_t*>(labels->Wait());
  int64_t capacity = g.tensor(g.Find("scores", Storage::kOutput)).shape[1];
  const auto& categories = loader_.dataset().categories;
  for (int i = 0; i < batch.n; ++i) {
    double sx = batch.scale_factors[static_cast<size_t>(2 * i)],
           sy = batch.scale_factors[static_cast<size_t>(2 * i + 1)];
    for (int64_t k = i * capacity; k < i * capacity + count[i]; ++k) {
      const float* b = box + 4 * k;
      double x = b[0] / sx, y = b[1] / sy;
      all.Add(batch.image_ids[static_cast<size_t>(i)], {x, y, b[2] / sx - x, b[3] / sy - y},
              score[k], categories[static_cast<size_t>(label[k])].id);
    }
  }
}

CocoResult DetectionEvaluator::Evaluate(const Detections& detections) const {
  return EvaluateBbox(loader_.dataset(), detections);
}

}  // namespace xp::train
