// What a config says of a run's course beside model, data, optimizer and schedule: how long, when
// it is evaluated and saved, and what happens when a number isn't finite any more.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exp/config/reader.h"
#include "exp/graph/params.h"
#include "exp/models/model.h"
#include "exp/train/checkpoint.h"
#include "exp/train/update.h"

namespace xp::train {

// `non_finite`: what happens when a loss, a gradient or a weight isn't finite any more.
struct NonFinitePolicy {
  enum class Action { kStop, kSkip, kRollBack } action = Action::kStop;
  double lr_factor = 0.5;  // of the learning rate after a roll back
  int max_events = 5;      // then it stops
};

struct RunSettings {
  int max_epochs = 0;           // -1: the config doesn't say
  int eval_interval = 1;        // epochs; 0: never
  int checkpoint_interval = 1;  // epochs; 0: never
  KeepPolicy keep;
  NonFinitePolicy non_finite;
};

// Throws UsageError for what is out of range, and for a metric that the model can't give
// (mmdetection#5650: refused before the first epoch, not after it).
RunSettings ReadRunSettings(const config::Reader& config, const models::Model& model);

// Keys of the parts that training reads that nobody asked for: told once all of it is read. Files
// of first weights are left out, which a resumed run doesn't read.
std::vector<config::UnusedKey> UnusedByTraining(const config::Reader& config);

// Every parameter and state of a model that is trained so: building any one training graph finds
// them.
std::shared_ptr<graph::ParamLayout> LayoutOf(const models::Model& model,
                                             const OptimizerOptions& optimizer,
                                             const models::BatchShape& shape, graph::DType compute);

}  // namespace xp::train
