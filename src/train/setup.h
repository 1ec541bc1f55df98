// Everything a training run needs, made ready before the first step: settings read, data opened,
// model built, weights initialised or loaded.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exp/config/reader.h"
#include "exp/graph/backend.h"
#include "exp/graph/program.h"
#include "exp/models/model.h"
#include "exp/train/checkpoint.h"
#include "exp/train/flat_state.h"
#include "exp/train/schedule.h"
#include "exp/train/trainer.h"
#include "exp/train/update.h"
#include "src/train/batch_source.h"
#include "src/train/evaluator.h"
#include "src/train/run_settings.h"
#include "src/train/step_runner.h"

namespace xp::train {

struct Setup {
  std::unique_ptr<graph::Backend> backend;
  graph::DType compute = graph::DType::kF32;
  std::unique_ptr<models::Model> model;
  std::unique_ptr<BatchSource> train, val;  // val: null when there is none
  OptimizerOptions optimizer;
  std::vector<std::string> slot_names;
  std::unique_ptr<Schedule> schedule;
  RunSettings settings;
  bool trains_batch_norm = false;
  // Where optimizer.lr was set for another batch (auto_scale_lr.base_batch_size): what the rule
  // gives for this one, and a line with all of its numbers. 0 and "" where it fits.
  double scaled_lr = 0;
  std::string lr_misfit;
  std::string categories;        // JSON [{"id", "name"}] in label order, for checkpoints
  bool background_last = false;  // among the box head's classes; checkpoints say so
  std::unique_ptr<graph::ParamBuffers> params;
  std::unique_ptr<StepRunner> steps;
  std::unique_ptr<Evaluator> evaluator;
  NamedValues phases;  // StartEvent's

  int64_t steps_per_epoch() const;  // optimizer steps
  FlatState ReadState() const;
  void ReadState(FlatState* state) const;  // into the memory that it has
  void WriteState(const FlatState& state);
  // Puts the averaged weights in the place of the trained ones, which are returned to be put back.
  std::vector<float> UseAverages();
  void UseWeights(const std::vector<float>& weights);
};

using Warn = std::function<void(const std::string& code, const std::string& message)>;

// Who hears what happens while training is made ready: warnings, and that a phase begins.
struct SetupObserver {
  Warn warn;
  std::function<void(const std::string& phase)> preparing;
};

// Throws UsageError for what can't work: before any weight is touched.
std::unique_ptr<Setup> PrepareTraining(const config::Reader& config, const TrainOptions& options,
                                       const SetupObserver& observer);

// Model, weights and step programs for these shapes alone, without data and schedule.
std::unique_ptr<Setup> PrepareStep(const config::Reader& config, const TrainOptions& options,
                                   const std::vector<models::BatchShape>& shapes);

}  // namespace xp::train
