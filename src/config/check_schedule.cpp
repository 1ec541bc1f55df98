#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "src/config/checker.h"

namespace xp::config {
namespace {

// How long training takes, in the unit in which the config counts; 0: it doesn't say.
struct Length {
  int64_t epochs = 0;
  int64_t steps = 0;
};

// Whatever stands in a config: the product or sum is the largest int where it is larger.
int64_t Times(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

int64_t Plus(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

Length TrainingLength(const Checker& checker) {
  Length length;
  for (const char* path :
       {"runner.max_epochs", "train_cfg.max_epochs", "total_epochs", "max_epochs"}) {
    if (length.epochs == 0) length.epochs = std::max<int64_t>(0, checker.Int(path, 0));
  }
  for (const char* path : {"runner.max_iters", "train_cfg.max_iters", "total_iters"}) {
    if (length.steps == 0) length.steps = std::max<int64_t>(0, checker.Int(path, 0));
  }
  // A loop counts in one of them; `max_epochs` may be a variable beside it.
  if (checker.Int("train_cfg.max_iters", 0) > 0 || checker.Int("runner.max_iters", 0) > 0)
    length.epochs = 0;
  return length;
}

bool ByEpoch(const Node& scheduler) {
  const Node* by_epoch = scheduler.Find("by_epoch");
  return by_epoch == nullptr || !by_epoch->IsBool() || by_epoch->AsBool();
}

int64_t IntOf(const Node& dict, const char* key, int64_t fallback) {
  const Node* value = dict.Find(key);
  return value != nullptr && value->IsInt() ? value->AsInt() : fallback;
}

void Steps(Checker& checker, const std::string& path, int64_t begin, int64_t last, bool by_epoch) {
  const Node* node = checker.root.At(path);
  if (node == nullptr || last == 0) return;
  for (const Node& step : Elements(*node)) {
    if (!step.IsInt() || Plus(begin, step.AsInt()) < last) continue;
    checker.Add("step-past-end", Level::kWarning, path,
                fmt::format("the LR step at {} {} never happens: training ends after {}",
                            by_epoch ? "epoch" : "step", Plus(begin, step.AsInt()), last),
                "lower it, or train longer");
  }
}

// exp's and mmcv's lr_config, whose warm-up is counted in steps unless warmup_by_epoch.
void LrConfig(Checker& checker, const Length& length) {
  const Node* config = checker.root.Find("lr_config");
  if (config == nullptr || !config->IsDict()) return;
  const bool epochs = ByEpoch(*config);
  Steps(checker, "lr_config.step", 0, epochs ? length.epochs : length.steps, epochs);
  const Node* kind = config->Find("warmup");
  int64_t warmup = IntOf(*config, "warmup_iters", 0);
  if (warmup <= 0 || kind == nullptr || kind->IsNull()) return;
  if (checker.Flag("lr_config.warmup_by_epoch")) {
    if (length.epochs == 0 || warmup < length.epochs) return;
    checker.Add(
        "warmup-too-long", Level::kWarning, "lr_config.warmup_iters",
        fmt::format("warm-up takes {} epochs, but training only {}", warmup, length.epochs));
    return;
  }
  int64_t steps = length.steps;
  std::string why = fmt::format("training is only {} steps", steps);
  const DataFacts* facts = checker.own ? checker.TrainFacts() : nullptr;
  if (steps == 0 && facts != nullptr && length.epochs > 0) {
    const auto positive = [&](const char* at) { return std::max<int64_t>(1, checker.Int(at, 1)); };
    const int64_t batch = Times(
        Times(positive("data.samples_per_gpu"), std::max<int64_t>(1, checker.options.devices)),
        positive("optimizer_config.cumulative_iters"));
    steps = Times(length.epochs, std::max<int64_t>(1, facts->images / batch));
    why = fmt::format("{} images in batches of {} over {} epochs are only {} steps", facts->images,
                      batch, length.epochs, steps);
  }
  if (steps == 0 || warmup < steps) return;
  checker.Add("warmup-too-long", Level::kWarning, "lr_config.warmup_iters",
              fmt::format("warm-up takes {} steps, but {}", warmup, why),
              "shorten lr_config.warmup_iters");
}

}  // namespace

void CheckSchedule(Checker& checker) {
  const Length length = TrainingLength(checker);
  LrConfig(checker, length);
  for (const auto& [at, scheduler] : checker.Schedulers()) {
    const bool epochs = ByEpoch(*scheduler);
    const int64_t last = epochs ? length.epochs : length.steps;
    const int64_t begin = IntOf(*scheduler, "begin", 0);
    // mmengine counts milestones from `begin`.
    Steps(checker, at + ".milestones", begin, last, epochs);
    const Node* type = scheduler->Find("type");
    const std::string name = type != nullptr && type->IsString() ? type->AsString() : "";
    const bool warms =
        name.find("LinearLR") != std::string::npos || name.find("ConstantLR") != std::string::npos;
    const int64_t end = IntOf(*scheduler, "end", 0);
    if (last == 0 || begin != 0 || !warms || end < last || checker.Schedulers().size() < 2)
      continue;
    checker.Add("warmup-too-long", Level::kWarning, at + ".end",
                fmt::format("warm-up takes {} {}, but training only {}", end,
                            epochs ? "epochs" : "steps", last));
  }
}

}  // namespace xp::config
