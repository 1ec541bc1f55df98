// `lr_config` in mmcv's words (mmcv/runner/hooks/lr_updater.py) to a ScheduleConfig.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "exp/config/node.h"
#include "exp/config/reader.h"
#include "exp/train/schedule.h"

namespace xp::train {
namespace {

// "step" with a number falls every so often, with a list at each of its milestones.
void ReadSteps(const config::Reader& lr, ScheduleConfig* schedule) {
  const config::Node* step = lr.Has("step") ? lr.Raw("step") : nullptr;
  if (step == nullptr)
    lr.Bad("step", "is missing", "an epoch, or a list of epochs", "add `lr_config.step`");
  if (step->IsList()) {
    schedule->policy = SchedulePolicy::kMultiStep;
    schedule->milestones = lr.Ints("step");
    const auto& steps = schedule->milestones;
    if (std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) != steps.end())
      lr.Bad("step", "doesn't ascend", "milestones in ascending order, each once");
  } else {
    schedule->policy = SchedulePolicy::kStep;
    schedule->step_size = lr.Int("step");
  }
}

void ReadOneCycle(const config::Reader& lr, ScheduleConfig* schedule) {
  schedule->policy = SchedulePolicy::kOneCycle;
  schedule->by_epoch = false;
  schedule->max_lr = lr.Double("max_lr", schedule->base_lr);
  schedule->pct_start = lr.Double("pct_start", schedule->pct_start);
  schedule->linear_anneal = lr.Choice("anneal_strategy", {"cos", "linear"}, "cos") == "linear";
  schedule->div_factor = lr.Double("div_factor", schedule->div_factor);
  schedule->final_div_factor = lr.Double("final_div_factor", schedule->final_div_factor);
  schedule->three_phase = lr.Bool("three_phase", false);
}

void ReadLowest(const config::Reader& lr, ScheduleConfig* schedule) {
  schedule->min_lr = lr.Double("min_lr", 0);
  if (schedule->min_lr > schedule->base_lr) {
    lr.Bad("min_lr",
           fmt::format("is {:g}, above optimizer.lr, {:g}", schedule->min_lr, schedule->base_lr),
           "at most optimizer.lr: the schedule goes down to it",
           "lower it, or say `min_lr_ratio`, a share of optimizer.lr");
  }
  if (!lr.Has("min_lr_ratio")) return;
  if (schedule->min_lr > 0)
    lr.Bad("min_lr_ratio", "is given beside `min_lr`", "one of them", "delete one");
  schedule->min_lr = schedule->base_lr * lr.Double("min_lr_ratio");
}

// Only what the policy has is read: the rest of `lr_config` shows as unused.
void ReadPolicy(const config::Reader& lr, ScheduleConfig* schedule) {
  const std::string policy = lr.Choice(
      "policy", {"step", "exp", "CosineAnnealing", "cosine", "poly", "OneCycle", "fixed"}, "step");
  schedule->by_epoch = lr.Bool("by_epoch", true);
  if (policy != "OneCycle" && policy != "fixed") ReadLowest(lr, schedule);
  if (policy == "step" || policy == "exp") schedule->gamma = lr.Double("gamma", schedule->gamma);
  if (policy == "step") {
    ReadSteps(lr, schedule);
  } else if (policy == "exp") {
    schedule->policy = SchedulePolicy::kExponential;
  } else if (policy == "poly") {
    schedule->policy = SchedulePolicy::kPoly;
    schedule->power = lr.Double("power", 1);
  } else if (policy == "OneCycle") {
    ReadOneCycle(lr, schedule);
  } else if (policy != "fixed") {
    schedule->policy = SchedulePolicy::kCosine;
  }
}

void ReadWarmup(const config::Reader& lr, ScheduleConfig* schedule) {
  // Read in any case: `warmup: null` switches off what a base config says.
  schedule->warmup_ratio = lr.Double("warmup_ratio", schedule->warmup_ratio);
  int64_t count = lr.Int("warmup_iters", -1);
  const bool by_epoch = lr.Bool("warmup_by_epoch", false);
  if (!lr.Has("warmup")) return;
  const std::string kind = lr.Choice("warmup", {"constant", "linear", "exp"});
  if (!lr.Has("warmup_iters")) {
    lr.Bad("warmup_iters", "is missing", "how many steps the warm-up takes",
           "add `lr_config.warmup_iters`, or delete `lr_config.warmup`");
  }
  if (count < 0) lr.Bad("warmup_iters", "is negative", "a number of steps from 0");
  schedule->warmup_steps = by_epoch ? count * schedule->steps_per_epoch : count;
  if (count == 0) return;
  schedule->warmup = kind == "constant" ? WarmupKind::kConstant
                     : kind == "linear" ? WarmupKind::kLinear
                                        : WarmupKind::kExp;
}

}  // namespace

ScheduleConfig ReadSchedule(const config::Reader& config, int64_t max_epochs,
                            int64_t steps_per_epoch) {
  ScheduleConfig schedule;
  schedule.base_lr = config.Double("optimizer.lr");
  schedule.steps_per_epoch = steps_per_epoch;
  schedule.total_steps = max_epochs * steps_per_epoch;
  if (!config.Has("lr_config")) return schedule;
  config::Reader lr = config.Child("lr_config");
  ReadPolicy(lr, &schedule);
  ReadWarmup(lr, &schedule);
  return schedule;
}

}  // namespace xp::train
