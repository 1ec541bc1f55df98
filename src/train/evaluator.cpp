#include "src/train/evaluator.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "exp/base/error.h"
#include "exp/graph/passes.h"
#include "src/train/class_evaluator.h"
#include "src/train/detection_evaluator.h"

namespace xp::train {

EvaluationPrograms::EvaluationPrograms(const EvaluationContext& context,
                                       const std::vector<models::BatchShape>& all) {
  std::shared_ptr<graph::Buffer> arena = context.arena;
  for (const models::BatchShape& of : all) {
    models::BatchShape shape{of.n, of.height, of.width, 0};
    graph::Graph g(std::make_shared<graph::ParamLayout>(context.params.layout()), context.compute);
    context.model.BuildEvaluation(g, shape);
    graph::RunPasses(g, {});
    programs_.push_back({shape, std::make_unique<graph::Program>(context.backend, std::move(g),
                                                                 context.params, arena)});
    arena = programs_.back().program->arena();
  }
}

graph::Program& EvaluationPrograms::Run(const data::Batch& batch) {
  auto entry = std::find_if(programs_.begin(), programs_.end(), [&](const Entry& e) {
    return e.shape.n == batch.n && e.shape.height == batch.height && e.shape.width == batch.width;
  });
  if (entry == programs_.end())
    throw std::logic_error("the loader gave a batch shape that it didn't announce");
  graph::Program& program = *entry->program;
  program.SetInput("images", batch.images.data(), batch.images.size());
  program.SetInput("sizes", batch.image_sizes.data(), batch.image_sizes.size() * sizeof(int32_t));
  program.Run();
  return program;
}

void EvaluationPrograms::EachBatch(const std::function<bool(data::Batch*)>& next,
                                   const std::vector<std::string>& outputs,
                                   const EvaluationWatch& watch, const Take& take) {
  struct InFlight {
    data::Batch batch;
    const graph::Program* program = nullptr;
    std::vector<std::unique_ptr<graph::PendingRead>> reads;
  };
  int64_t images = 0, left_out = 0, finished = 0;
  auto finish = [&](InFlight* done) {
    if (done->program == nullptr) return;
    std::vector<const void*> values;
    for (auto& read : done->reads) values.push_back(read->Wait());
    take(done->program->graph(), done->batch, values);
    done->program = nullptr;
    done->reads.clear();
    finished += done->batch.n;
    if (watch.progress) watch.progress(finished);
  };
  InFlight before, now;
  while (!Stopped(watch.stop) && next(&now.batch)) {
    images += now.batch.n;
    left_out += std::count(now.batch.left_out.begin(), now.batch.left_out.end(), 1);
    now.program = &Run(now.batch);
    for (const std::string& name : outputs) {
      graph::TensorId id = now.program->graph().Find(name, graph::Storage::kOutput);
      now.reads.push_back(now.program->ReadAsync(id));
    }
    finish(&before);
    std::swap(before, now);
  }
  finish(&before);
  if (images > 0 && left_out == images) {
    throw UsageError({.what = "not one image of the evaluation can be used",
                      .expected = "images that can be decoded, of the size that the file says",
                      .next = "`exp data check` lists what is wrong with the files"});
  }
}

std::unique_ptr<Evaluator> MakeEvaluator(const EvaluationContext& context, BatchSource& source) {
  if (context.model.task() == models::Task::kClassification)
    return std::make_unique<ClassEvaluator>(context, source);
  return std::make_unique<DetectionEvaluator>(context, *source.detection());
}

}  // namespace xp::train
