#include <fmt/format.h>

#include <algorithm>

#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/lr_check.h"
#include "src/config/checker.h"

namespace xp::config {
namespace {

constexpr const char* kBase = "auto_scale_lr.base_batch_size";

void NameBatch(Checker& checker) {
  int64_t devices = 0;
  int64_t samples = 0;
  if (!checker.Named(&devices, &samples)) return;
  int64_t base = checker.Int(kBase, 0);
  if (base > 0 && base != devices * samples) {
    std::string lr = checker.LrPath();
    std::string message =
        fmt::format("the file's name says {}x{} = {} images a step, but base_batch_size is {}",
                    devices, samples, devices * samples, base);
    if (!lr.empty()) {
      message += fmt::format(
          "; lr {} was last set at {}, and scaling on {} devices would multiply it by {:g}",
          Brief(*checker.root.At(lr)), SetAt(*checker.root.At(lr)), devices,
          static_cast<double>(devices * samples) / static_cast<double>(base));
    }
    checker.Add("name-batch", Level::kWarning, kBase, message,
                fmt::format("set {} to {}, or rename the file", kBase, devices * samples));
  }
  int64_t actual = checker.Int(checker.SamplesPath(), 0);
  if (actual > 0 && actual != samples) {
    checker.Add("name-samples", Level::kInfo, checker.SamplesPath(),
                fmt::format("the file's name says {} images a device, but `{}` is {}", samples,
                            checker.SamplesPath(), actual));
  }
}

// mmengine's keys under exp's names.
Node Translated(const Node& from_root) {
  Node root = Node::Dict();
  auto copy = [&](const char* from, const char* group, const char* key) {
    const Node* value = from_root.At(from);
    if (value == nullptr || value->IsNull()) return;
    if (!root.Has(group)) root.Set(group, Node::Dict());
    root.FindMutable(group)->Set(key, *value);
  };
  copy("optim_wrapper.optimizer.lr", "optimizer", "lr");
  copy("optimizer.lr", "optimizer", "lr");
  copy("train_dataloader.batch_size", "data", "samples_per_gpu");
  copy("data.samples_per_gpu", "data", "samples_per_gpu");
  copy("optim_wrapper.accumulative_counts", "optimizer_config", "cumulative_iters");
  copy("optimizer_config.cumulative_iters", "optimizer_config", "cumulative_iters");
  copy("auto_scale_lr.base_batch_size", "auto_scale_lr", "base_batch_size");
  copy("auto_scale_lr.enable", "auto_scale_lr", "enable");
  return root;
}

// Absolute rates that stay where they are when lr is scaled.
std::vector<std::string> AbsoluteRates(const Checker& checker) {
  std::vector<std::string> found;
  auto look = [&](const std::string& at, const Node* dict) {
    if (dict == nullptr || !dict->IsDict()) return;
    for (const char* key : {"min_lr", "max_lr", "eta_min", "eta_max", "warmup_lr",
                            "warmup_start_lr", "warmup_init_lr", "start_lr", "end_lr"}) {
      const Node* value = dict->Find(key);
      if (value != nullptr && value->IsNumber() && value->AsDouble() > 0)
        found.push_back(at + "." + key);
    }
  };
  look("lr_config", checker.root.Find("lr_config"));
  for (const auto& [at, scheduler] : checker.Schedulers()) {
    const Node* type = scheduler->Find("type");  // there are schedules of momentum and decay too
    if (type != nullptr && type->IsString() && type->AsString().find("LR") != std::string::npos)
      look(at, scheduler);
  }
  return found;
}

// Whether the LR fits the batch; true when it doesn't and is or should be scaled.
bool LrBatch(Checker& checker) {
  int64_t devices = checker.options.devices;
  int64_t named = 0;
  int64_t samples = 0;
  if (!checker.options.devices_given && checker.Named(&named, &samples)) devices = named;
  if (checker.LrPath().empty()) return false;
  // Other projects' configs don't say on how many devices they run, their names do.
  if (!checker.own && !checker.options.devices_given && named == 0) return false;
  LrCheck check;
  try {
    check = CheckLr(checker.own ? checker.root : Translated(checker.root), devices);
  } catch (const Error& error) {
    const bool told = std::any_of(
        checker.findings.begin(), checker.findings.end(),
        [&](const Finding& f) { return f.rule == "schema" && f.where == error.text().where; });
    if (!told) {
      checker.Add("lr-batch", Level::kError, checker.LrPath(),
                  error.text().what + "; expected " + error.text().expected, error.text().next);
    }
    return false;
  }
  if (check.policy == LrPolicy::kOff || check.base_batch == 0 || check.fits) return false;
  Level level = check.policy == LrPolicy::kError   ? Level::kError
                : check.policy == LrPolicy::kScale ? Level::kInfo
                                                   : Level::kWarning;
  std::string next = "auto_scale_lr scales it";
  if (check.policy != LrPolicy::kScale) {
    next = fmt::format("set lr to {:g}, or auto_scale_lr.{}", check.lr_scaled,
                       checker.own ? "policy to scale" : "enable to true");
  }
  const std::string message = fmt::format("{}; lr was last set at {}", check.message,
                                          SetAt(*checker.root.At(checker.LrPath())));
  checker.Add("lr-batch", level, checker.LrPath(), message, next);
  return true;
}

// The layer in which the LR was last set says which batch it was tuned for.
void LrOrigin(Checker& checker) {
  std::string path = checker.LrPath();
  const Node* base = checker.root.At(kBase);
  if (path.empty() || base == nullptr) return;
  const Node& lr = *checker.root.At(path);
  auto source = [](const Node& node) {
    const auto& history = node.history();
    return history ? history->at.source : node.origin().source;
  };
  if (source(lr) == source(*base) || source(lr) == nullptr || source(*base) == nullptr ||
      lr.history() == nullptr)
    return;
  // Set again in a later file while the batch that it is for stayed the base's.
  if (source(lr) == InternName(checker.path) || source(lr)->rfind("--set", 0) == 0) {
    checker.Add("lr-origin", Level::kInfo, path,
                fmt::format("lr is set here, but the batch that it is for ({}) comes from {}",
                            Brief(*base), SetAt(*base)),
                fmt::format("set {} beside it", kBase));
  }
}

void AbsoluteLr(Checker& checker, bool misfit) {
  const bool scales =
      checker.Flag("auto_scale_lr.enable") || checker.Text("auto_scale_lr.policy") == "scale";
  std::vector<std::string> rates = AbsoluteRates(checker);
  std::string lr_path = checker.LrPath();
  const Node* lr = lr_path.empty() ? nullptr : checker.root.At(lr_path);
  for (const std::string& at : rates) {
    const double rate = checker.root.At(at)->AsDouble();
    const std::string key = at.substr(at.rfind('.') + 1);
    const bool least = key == "min_lr" || key == "eta_min" || key == "end_lr";
    // A schedule in several parts may rise in one of them: where the last ends counts.
    if (least && at == rates.back() && lr != nullptr && lr->IsNumber() && rate >= lr->AsDouble()) {
      checker.Add("absolute-lr", Level::kWarning, at,
                  fmt::format("`{}` is {:g}, no less than lr {:g}: the rate would not decay", at,
                              rate, lr->AsDouble()),
                  "lower it with lr, or write it as a share of lr");
    } else if (scales || misfit) {
      checker.Add(
          "absolute-lr", scales ? Level::kWarning : Level::kInfo, at,
          fmt::format("`{}` is an absolute learning rate, which auto_scale_lr doesn't scale", at),
          "write it as a share of lr (min_lr_ratio, start_factor)");
    }
  }
}

}  // namespace

void CheckLearningRate(Checker& checker) {
  NameBatch(checker);
  bool misfit = LrBatch(checker);
  LrOrigin(checker);
  AbsoluteLr(checker, misfit);
}

}  // namespace xp::config
