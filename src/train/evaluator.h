// Scores a model on a validation set.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exp/base/stop.h"
#include "exp/graph/program.h"
#include "exp/models/model.h"
#include "exp/train/events.h"
#include "src/train/batch_source.h"

namespace xp::train {

// While images are evaluated: what may end it early, and who is told how many of them are done.
// Both may be empty.
struct EvaluationWatch {
  StopFlag stop = nullptr;
  std::function<void(int64_t images)> progress;
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // Begins to load the next Run()'s first batches, while the device still trains.
  virtual void Prefetch() = 0;
  // Metrics in the order in which they are shown; none where it was ended early.
  virtual NamedValues Run(const EvaluationWatch& watch) = 0;
};

// What an evaluator runs with. `arena`: memory of the training programs, which don't run meanwhile;
// may be null. The rest must outlive the evaluator.
struct EvaluationContext {
  graph::Backend& backend;
  const models::Model& model;
  graph::ParamBuffers& params;
  graph::DType compute;
  std::shared_ptr<graph::Buffer> arena;
};

// One program a batch shape. The largest comes first and its memory serves all.
class EvaluationPrograms {
 public:
  EvaluationPrograms(const EvaluationContext& context, const std::vector<models::BatchShape>& all);
  // Runs the batches that `next` gives, and calls `take` with each batch's `outputs` in order: with
  // one batch's while the device works on the next.
  using Take = std::function<void(const graph::Graph&, const data::Batch&,
                                  const std::vector<const void*>& values)>;
  void EachBatch(const std::function<bool(data::Batch*)>& next,
                 const std::vector<std::string>& outputs, const EvaluationWatch& watch,
                 const Take& take);

 private:
  // Sets "images" and "sizes", runs, and gives the program to read from.
  graph::Program& Run(const data::Batch& batch);

  struct Entry {
    models::BatchShape shape;
    std::unique_ptr<graph::Program> program;
  };
  std::vector<Entry> programs_;
};

// bbox metrics for detectors (coco_eval.h); "top1", "top5" (of more than five classes) and each
// class's share of right answers ("accuracy/NAME", up to 100 classes) for classifiers.
std::unique_ptr<Evaluator> MakeEvaluator(const EvaluationContext& context, BatchSource& source);

}  // namespace xp::train
