#include "exp/train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "exp/base/error.h"

namespace xp::train {
namespace {

void Require(bool holds, const char* key, double value, const char* expected) {
  if (holds) return;
  throw UsageError({.what = fmt::format("`{}` is {}", key, value), .expected = expected});
}

// mmcv's annealing_cos: from `start` to `end` while `factor` goes from 0 to 1.
double AnnealCosine(double start, double end, double factor) {
  return end + 0.5 * (start - end) * (std::cos(std::numbers::pi * factor) + 1);
}

void CheckDecay(const ScheduleConfig& c) {
  Require(std::isfinite(c.gamma) && c.gamma > 0, "lr_config.gamma", c.gamma, "a number above 0");
  Require(c.step_size > 0, "lr_config.step", static_cast<double>(c.step_size), "at least 1");
  for (size_t i = 0; i < c.milestones.size(); ++i) {
    bool ascending = c.milestones[i] >= 0 && (i == 0 || c.milestones[i] > c.milestones[i - 1]);
    Require(ascending, "lr_config.step", static_cast<double>(c.milestones[i]),
            "ascending numbers from 0");
  }
}

void CheckOneCycle(const ScheduleConfig& c) {
  Require(std::isfinite(c.max_lr) && c.max_lr > 0, "lr_config.max_lr", c.max_lr,
          "a number above 0");
  Require(c.pct_start >= 0 && c.pct_start <= 1, "lr_config.pct_start", c.pct_start, "from 0 to 1");
  Require(c.div_factor > 0, "lr_config.div_factor", c.div_factor, "a number above 0");
  Require(c.final_div_factor > 0, "lr_config.final_div_factor", c.final_div_factor,
          "a number above 0");
  if (c.warmup != WarmupKind::kNone) {
    throw UsageError({.what = "`lr_config.warmup` is given with the policy OneCycle",
                      .expected = "one of them: OneCycle begins with a warm-up of its own",
                      .next = "delete `lr_config.warmup`"});
  }
}

void Check(const ScheduleConfig& c) {
  Require(std::isfinite(c.base_lr) && c.base_lr > 0, "optimizer.lr", c.base_lr, "a number above 0");
  Require(c.total_steps > 0, "the number of steps", static_cast<double>(c.total_steps),
          "at least 1");
  Require(c.steps_per_epoch > 0, "steps an epoch", static_cast<double>(c.steps_per_epoch),
          "at least 1");
  Require(std::isfinite(c.min_lr) && c.min_lr >= 0, "lr_config.min_lr", c.min_lr,
          "a number from 0");
  if (c.min_lr > c.base_lr) {
    throw UsageError({.what = fmt::format("`lr_config.min_lr` is {:g}, above optimizer.lr, {:g}",
                                          c.min_lr, c.base_lr),
                      .expected = "at most optimizer.lr: the schedule goes down to it",
                      .next = "lower it, or say `min_lr_ratio`, a share of optimizer.lr"});
  }
  Require(std::isfinite(c.power) && c.power >= 0, "lr_config.power", c.power, "a number from 0");
  CheckDecay(c);
  if (c.policy == SchedulePolicy::kOneCycle) CheckOneCycle(c);
  if (c.warmup == WarmupKind::kNone) return;
  Require(c.warmup_steps > 0, "lr_config.warmup_iters", static_cast<double>(c.warmup_steps),
          "at least 1");
  bool zero_allowed = c.warmup != WarmupKind::kExp;
  Require(c.warmup_ratio <= 1 && (c.warmup_ratio > 0 || (zero_allowed && c.warmup_ratio == 0)),
          "lr_config.warmup_ratio", c.warmup_ratio, "above 0, at most 1");
}

}  // namespace

Schedule::Schedule(ScheduleConfig config) : config_(std::move(config)) { Check(config_); }

std::vector<std::string> Schedule::Doubts() const {
  const ScheduleConfig& c = config_;
  std::vector<std::string> doubts;
  if (c.warmup != WarmupKind::kNone && c.warmup_steps >= c.total_steps) {
    doubts.push_back(fmt::format(
        "lr_config.warmup_iters: the warm-up takes {} steps, training only {}: the learning rate "
        "of {:g} is never reached",
        c.warmup_steps, c.total_steps, c.base_lr));
  }
  const int64_t unit = c.by_epoch ? c.steps_per_epoch : 1;
  const int64_t last = (c.total_steps + unit - 1) / unit;
  if (c.policy != SchedulePolicy::kMultiStep) return doubts;
  for (int64_t milestone : c.milestones) {
    if (milestone < last) continue;
    const char* what = c.by_epoch ? "epoch" : "step";
    doubts.push_back(
        fmt::format("lr_config.step: the one at {} {} never happens, training ends after {} {}s",
                    what, milestone, last, what));
  }
  return doubts;
}

double Schedule::LrAt(int64_t step) const {
  return Regular(std::max<int64_t>(step, 0)) * WarmupFactor(step);
}

double Schedule::Regular(int64_t step) const {
  const ScheduleConfig& c = config_;
  int64_t unit = c.by_epoch ? c.steps_per_epoch : 1;
  int64_t t = step / unit;
  // Of the whole training, in t's unit; a last epoch that is cut short counts.
  auto total = static_cast<double>((c.total_steps + unit - 1) / unit);
  double progress = std::min(static_cast<double>(t) / total, 1.0);
  switch (c.policy) {
    case SchedulePolicy::kConstant:
      return c.base_lr;
    case SchedulePolicy::kStep:
      return std::max(c.min_lr,
                      c.base_lr * std::pow(c.gamma, static_cast<double>(t / c.step_size)));
    case SchedulePolicy::kMultiStep: {
      auto reached =
          std::upper_bound(c.milestones.begin(), c.milestones.end(), t) - c.milestones.begin();
      return std::max(c.min_lr, c.base_lr * std::pow(c.gamma, static_cast<double>(reached)));
    }
    case SchedulePolicy::kExponential:
      return std::max(c.min_lr, c.base_lr * std::pow(c.gamma, static_cast<double>(t)));
    case SchedulePolicy::kCosine:
      return AnnealCosine(c.base_lr, c.min_lr, progress);
    case SchedulePolicy::kPoly:
      return c.min_lr + (c.base_lr - c.min_lr) * std::pow(1 - progress, c.power);
    case SchedulePolicy::kOneCycle:
      return OneCycle(step);
  }
  return c.base_lr;
}

// Source: torch/optim/lr_scheduler.py, OneCycleLR: phases end at fractional steps.
double Schedule::OneCycle(int64_t step) const {
  const ScheduleConfig& c = config_;
  const double initial = c.max_lr / c.div_factor, final = initial / c.final_div_factor;
  const auto total = static_cast<double>(c.total_steps);
  const double peak = c.pct_start * total - 1, last = total - 1;
  auto between = [&](double start_step, double end_step, double start, double end) {
    double length = end_step - start_step;
    double factor =
        length > 0 ? (std::min(static_cast<double>(step), last) - start_step) / length : 1;
    return c.linear_anneal ? start + (end - start) * factor : AnnealCosine(start, end, factor);
  };
  auto at = static_cast<double>(step);
  if (at <= peak) return between(0, peak, initial, c.max_lr);
  if (!c.three_phase) return between(peak, last, c.max_lr, final);
  const double back = 2 * c.pct_start * total - 2;
  if (at <= back) return between(peak, back, c.max_lr, initial);
  return between(back, last, initial, final);
}

double Schedule::WarmupFactor(int64_t step) const {
  const ScheduleConfig& c = config_;
  if (c.warmup == WarmupKind::kNone || step >= c.warmup_steps) return 1;
  double share =
      static_cast<double>(std::max<int64_t>(step, 0)) / static_cast<double>(c.warmup_steps);
  switch (c.warmup) {
    case WarmupKind::kConstant:
      return c.warmup_ratio;
    case WarmupKind::kLinear:
      return 1 - (1 - share) * (1 - c.warmup_ratio);
    case WarmupKind::kExp:
      return std::pow(c.warmup_ratio, 1 - share);
    case WarmupKind::kNone:
      break;
  }
  return 1;
}

}  // namespace xp::train
