#include "src/train/schedule_from_config.h"

#include <algorithm>
#include <string>
#include <vector>

namespace xp::train {
namespace {

using config::Reader;

void ReadPolicy(const Reader& config, ScheduleConfig& s) {
  std::string policy = config.Choice(
      "lr_config.policy", {"fixed", "step", "exp", "CosineAnnealing", "poly", "OneCycle"}, "fixed");
  s.gamma = config.Double("lr_config.gamma", 0.1);
  s.min_lr = config.Double("lr_config.min_lr", 0);
  if (policy == "step") {
    const config::Node* step = config.Raw("lr_config.step");
    if (step != nullptr && step->IsInt()) {
      s.policy = SchedulePolicy::kStep;
      s.step_size = step->AsInt();
    } else {
      s.policy = SchedulePolicy::kMultiStep;
      s.milestones = config.Ints("lr_config.step");
    }
  } else if (policy == "exp") {
    s.policy = SchedulePolicy::kExponential;
  } else if (policy == "CosineAnnealing") {
    s.policy = SchedulePolicy::kCosine;
    if (config.Has("lr_config.min_lr_ratio"))
      s.min_lr = s.base_lr * config.Double("lr_config.min_lr_ratio");
  } else if (policy == "poly") {
    s.policy = SchedulePolicy::kPoly;
    s.power = config.Double("lr_config.power", 1);
  } else if (policy == "OneCycle") {
    s.policy = SchedulePolicy::kOneCycle;
    s.max_lr = config.Double("lr_config.max_lr", s.base_lr);
    s.pct_start = config.Double("lr_config.pct_start", 0.3);
    s.linear_anneal =
        config.Choice("lr_config.anneal_strategy", {"cos", "linear"}, "cos") == "linear";
    s.div_factor = config.Double("lr_config.div_factor", 25);
    s.final_div_factor = config.Double("lr_config.final_div_factor", 1e4);
    s.three_phase = config.Bool("lr_config.three_phase", false);
  }
}

void ReadWarmup(const Reader& config, ScheduleConfig& s) {
  if (!config.Has("lr_config.warmup")) return;
  std::string warmup = config.Choice("lr_config.warmup", {"constant", "linear", "exp"});
  s.warmup = warmup == "constant" ? WarmupKind::kConstant
             : warmup == "linear" ? WarmupKind::kLinear
                                  : WarmupKind::kExp;
  s.warmup_steps = config.Int("lr_config.warmup_iters", 0);
  if (config.Bool("lr_config.warmup_by_epoch", false)) s.warmup_steps *= s.steps_per_epoch;
  s.warmup_ratio = config.Double("lr_config.warmup_ratio", 0.1);
}

}  // namespace

Schedule ReadSchedule(const Reader& config, double base_lr, int64_t steps_per_epoch,
                      int max_epochs) {
  ScheduleConfig s;
  s.base_lr = base_lr;
  s.steps_per_epoch = std::max<int64_t>(steps_per_epoch, 1);
  s.total_steps = s.steps_per_epoch * std::max(max_epochs, 1);
  s.by_epoch = config.Bool("lr_config.by_epoch", true);
  if (config.Has("lr_config")) {
    ReadPolicy(config, s);
    ReadWarmup(config, s);
  }
  return Schedule(s);
}

}  // namespace xp::train
