// The learning rate as a pure function of the optimizer step: nothing is carried from step to step,
// so a resumed run continues where it was, also in the middle of a warm-up or at a milestone.
//
// Names and meaning as mmcv's lr_config; the numbers are torch.optim.lr_scheduler's closed forms
// (tests/fixtures/schedules.json holds torch's own).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace xp::config {
class Reader;
}

namespace xp::train {

enum class SchedulePolicy {
  kConstant,     // base_lr
  kStep,         // base_lr * gamma ^ (t / step_size)               mmcv "step" with a number
  kMultiStep,    // base_lr * gamma ^ (milestones that t has reached)  mmcv "step" with a list
  kExponential,  // base_lr * gamma ^ t                             "exp"
  kCosine,       // min_lr + (base_lr - min_lr) * (1 + cos(pi t / T)) / 2   "CosineAnnealing"
  kPoly,         // min_lr + (base_lr - min_lr) * (1 - t / T) ^ power       "poly"
  kOneCycle,     // up from max_lr / div_factor to max_lr and down again    "OneCycle"
};

enum class WarmupKind {
  kNone,
  kConstant,  // times ratio
  kLinear,    // times ratio + (1 - ratio) * step / warmup_steps
  kExp,       // times ratio ^ (1 - step / warmup_steps)
};

struct ScheduleConfig {
  SchedulePolicy policy = SchedulePolicy::kConstant;
  double base_lr = 0;           // > 0
  int64_t total_steps = 0;      // optimizer steps of the whole training, > 0
  int64_t steps_per_epoch = 0;  // optimizer steps an epoch, > 0
  bool by_epoch = true;  // t counts whole epochs and T is their number; false: t counts steps

  double gamma = 0.1;               // kStep, kMultiStep, kExponential: > 0
  int64_t step_size = 1;            // kStep: in t's unit, > 0
  std::vector<int64_t> milestones;  // kMultiStep: in t's unit, ascending
  double min_lr = 0;  // kCosine, kPoly: the end; kStep, kMultiStep, kExponential: a floor; >= 0
  double power = 1;   // kPoly

  // kOneCycle, always by step: Smith and Topin, arXiv:1708.07120, in torch's form.
  double max_lr = 0;
  double pct_start = 0.3;  // share of the steps that go up, in [0, 1]
  bool linear_anneal = false;
  double div_factor = 25, final_div_factor = 1e4;
  bool three_phase = false;  // down to the initial rate first, then to the final one

  WarmupKind warmup = WarmupKind::kNone;
  int64_t warmup_steps = 0;   // the factor applies to steps 0 .. warmup_steps - 1
  double warmup_ratio = 0.1;  // in (0, 1]; kConstant and kLinear also 0
};

// From a whole config: `optimizer.lr` and `lr_config` (absent: a constant rate). Warm-up of 0 steps
// is none; `min_lr_ratio` is a share of the base rate; `max_lr` is `optimizer.lr` where it isn't
// given. Throws UsageError with the value's place for a policy or a warm-up of another name.
ScheduleConfig ReadSchedule(const config::Reader& config, int64_t max_epochs,
                            int64_t steps_per_epoch);

class Schedule {
 public:
  // Throws UsageError where a value is out of its range, naming it as lr_config does.
  explicit Schedule(ScheduleConfig config);

  // The rate that step number `step` (0-based, over all epochs) uses. Beyond the end the last value
  // holds. Thread-safe. Groups multiply it by their own factor.
  double LrAt(int64_t step) const;

  // What can be meant but hardly is, a line each: a warm-up that is longer than training,
  // milestones behind its end.
  std::vector<std::string> Doubts() const;

  const ScheduleConfig& config() const { return config_; }

 private:
  double Regular(int64_t step) const;
  double OneCycle(int64_t step) const;
  double WarmupFactor(int64_t step) const;

  ScheduleConfig config_;
};

}  // namespace xp::train
