// Does the learning rate fit the batch? The linear rule of Goyal et al., "Accurate, Large Minibatch
// SGD" (2017): LR grows with the effective batch = devices x samples_per_gpu x cumulative_iters,
// measured against the batch that the LR was set for (auto_scale_lr.base_batch_size). Gradient
// accumulation counts (mmengine#894), and the message names every number (mmdetection#11497).
#pragma once

#include <cstdint>
#include <string>

#include "exp/config/node.h"

namespace xp::config {

enum class LrPolicy { kWarn, kError, kScale, kOff };

struct LrCheck {
  LrPolicy policy = LrPolicy::kWarn;
  int64_t devices = 1;
  int64_t samples_per_gpu = 0;
  int64_t cumulative_iters = 1;
  int64_t base_batch = 0;       // 0: the config doesn't say what batch the LR was set for
  int64_t effective_batch = 0;  // devices x samples_per_gpu x cumulative_iters
  double ratio = 1;             // effective / base
  double lr_before = 0;         // as configured
  double lr_scaled = 0;         // what the linear (or square-root) rule gives
  bool fits = true;             // no base known, or the ratio is 1
  std::string message;          // one line with all of the numbers
  std::string where;            // place of optimizer.lr
};

// Reads optimizer.lr, data.samples_per_gpu, optimizer_config.cumulative_iters and
// auto_scale_lr.{enable, base_batch_size,policy,rule}. The policy is auto_scale_lr.policy (warn,
// error, scale, off), or scale when auto_scale_lr.enable is true, else warn. Rule is linear, or
// sqrt for Adam-like optimizers that ask for it.
LrCheck CheckLr(const Node& root, int64_t devices);

// CheckLr and what its policy says: throws UsageError for `error`; for `scale` changes optimizer.lr
// (and warm-up's absolute LRs stay ratios, so they follow) with a history layer. Returns what was
// found.
LrCheck ApplyLrPolicy(Node& root, int64_t devices);

}  // namespace xp::config
