// Runs training steps: one program a batch shape, all over the same parameters and the same memory.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "exp/data/loader.h"
#include "exp/graph/program.h"
#include "exp/models/model.h"
#include "exp/train/events.h"
#include "exp/train/update.h"

namespace xp::train {

// What one micro-step gave, on its way from the device.
class PendingLosses {
 public:
  std::vector<std::unique_ptr<graph::PendingRead>> reads;  // an output tensor each
  std::unique_ptr<graph::PendingRead> norm;                // of the gradients, where it is computed
  double grad_norm = -1;                                   // after Wait
  // Blocks until the step is done.
  NamedValues Wait(const std::vector<models::LossTerm>& terms,
                   const std::vector<std::string>& outputs);
};

// One batch's share of an optimizer step.
struct MicroStep {
  double lr = 0;
  uint64_t seed = 0;
  int64_t step = 0;         // with the seed and the image's number the key of random draws
  int64_t first_image = 0;  // number of the batch's first image in the whole step
  double weight = 1;        // of its gradients, where gradients are accumulated
  bool first = true;        // begins a new accumulation
  bool update = true;       // the optimizer runs after it
};

class StepRunner {
 public:
  StepRunner(graph::Backend& backend, const models::Model& model, graph::ParamBuffers& params,
             graph::DType compute, const OptimizerOptions& optimizer,
             const std::vector<models::BatchShape>& shapes);

  // Enqueues one micro-step. The batch may be changed on return.
  PendingLosses Run(const data::Batch& batch, const MicroStep& micro);
  NamedValues Losses(PendingLosses& pending);

  size_t planned_bytes() const;  // programs and their shared arena, without the flat buffers
  std::shared_ptr<graph::Buffer> arena() const { return programs_.front().program->arena(); }
  graph::Program& program(size_t i) { return *programs_[i].program; }

 private:
  struct Entry {
    models::BatchShape shape;
    std::unique_ptr<graph::Program> program;
    std::vector<graph::TensorId> outputs;  // of output_names_
    graph::TensorId images, sizes, boxes, labels, counts, key, lr, first, weight, ema, norm;
  };
  Entry Build(const models::BatchShape& shape, std::shared_ptr<graph::Buffer> arena);
  graph::Graph StepGraph(const models::BatchShape& shape) const;
  // A batch that fits where `error` says that `shape` doesn't, nearly the largest; 0: none does.
  int LargestFittingBatch(const graph::MemoryLimit& error, const models::BatchShape& shape) const;
  // The same error with that batch in its text.
  graph::MemoryLimit WithLargestBatch(const graph::MemoryLimit& error,
                                      const models::BatchShape& shape) const;
  Entry& Find(const data::Batch& batch);

  graph::Backend& backend_;
  const models::Model& model_;
  graph::ParamBuffers& params_;
  graph::DType compute_;
  OptimizerOptions optimizer_;
  std::vector<models::LossTerm> terms_;
  std::vector<std::string> output_names_;
  std::vector<Entry> programs_;
};

}  // namespace xp::train
