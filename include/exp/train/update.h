// Adds the optimizer to a training graph: clipping, the update of the flat buffers, accumulation.
#pragma once

#include <string>
#include <vector>

#include "exp/graph/graph.h"
#include "exp/train/param_groups.h"

namespace xp::config {
class Reader;
}

namespace xp::train {

enum class OptimizerKind { kSgd, kAdam, kAdamW, kLars };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  double lr = 0.02;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double trust = 0.001;
  ParamGroups groups;
  double max_norm = 0, max_value = 0;  // grad_clip; 0: none
  int cumulative_iters = 1;
  double ema_momentum = 0;  // `ema.momentum`: average = (1 - m) * average + m * weights; 0: none
};

OptimizerOptions ReadOptimizer(const config::Reader& config);

// Param-sized vectors of state, by their names in checkpoints: the optimizer's ("momentum", or
// "exp_avg" and "exp_avg_sq"), then "ema" where weights are averaged.
std::vector<std::string> OptimizerSlotNames(const OptimizerOptions& options);
int OptimizerSlotCount(const OptimizerOptions& options);

// After AppendBackward. Adds the inputs "lr" f32 [1] and, when gradients are accumulated, "first"
// i32 [1] and "weight" f32 [1], "ema_momentum" f32 [1] where weights are averaged; the output
// "grad_norm" f32 [1] where gradients are clipped or scaled.
void AppendUpdate(graph::Graph& g, const OptimizerOptions& options);

}  // namespace xp::train
