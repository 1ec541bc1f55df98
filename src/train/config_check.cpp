#include "exp/train/config_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "exp/base/error.h"
#include "exp/config/reader.h"
#include "exp/data/from_config.h"
#include "exp/models/model.h"
#include "exp/train/param_groups.h"
#include "exp/train/schedule.h"
#include "src/train/load_weights.h"
#include "src/train/run_settings.h"

namespace xp::train {
namespace {

using config::Finding;
using config::Level;
using config::Reader;

// Names and shapes of parameters don't depend on it; every model can be built for it.
constexpr models::BatchShape kAnyShape{1, 320, 320, 1};

class ConfigCheck {
 public:
  explicit ConfigCheck(const config::Node& root) : config_(root) {}

  std::vector<Finding> Run() {
    if (!config_.Has("model")) return {};
    Read("model", [&] { model_ = models::CreateModel(config_.Child("model")); });
    if (config_.Has("optimizer.lr")) Read("optimizer", [&] { ReadOptimizerAndSchedule(); });
    if (model_ != nullptr) {
      Read("run", [&] { ReadRunSettings(config_, *model_); });
      for (const char* part : {"train", "val"})
        if (config_.Has(std::string("data.") + part)) Read("data", [&] { ReadData(part); });
    }
    if (model_ != nullptr && optimizer_) ReadParameters();
    // What is behind an error hasn't been read.
    if (findings_.empty()) AddUnused();
    return std::move(findings_);
  }

  // The errors among the findings, in their order: the rule, and what was thrown.
  const std::vector<std::pair<std::string, Error>>& errors() const { return errors_; }

 private:
  // What a reader throws is a finding under the rule.
  void Read(const char* rule, const std::function<void()>& read) {
    try {
      read();
    } catch (const Error& e) {
      errors_.emplace_back(rule, e);
      std::string message = e.text().what;
      if (!e.text().expected.empty()) message += "; expected " + e.text().expected;
      findings_.push_back({rule, Level::kError, rule, e.text().where, message, e.text().next});
    }
  }

  void ReadOptimizerAndSchedule() {
    OptimizerOptions optimizer = ReadOptimizer(config_);
    // How many steps an epoch has depends on the data; what is out of range doesn't.
    constexpr int64_t kSteps = 1000;
    const int64_t epochs = std::clamp<int64_t>(config_.Int("runner.max_epochs", 1), 1, 1000000);
    Schedule schedule(ReadSchedule(config_, epochs, kSteps));
    optimizer_ = std::move(optimizer);
  }

  // How the part is loaded. That its files are there and what they hold isn't looked at.
  void ReadData(const char* part) {
    Reader keys = config_.Child(std::string("data.") + part);
    for (const char* key : {"ann_file", "img_prefix", "classes", "policy"}) keys.Raw(key);
    if (model_->task() == models::Task::kClassification) {
      data::ReadClassLoaderOptions(config_, part, 0);
      return;
    }
    data::ReadLoaderOptions(config_, part, 0);
    for (const char* key : {"limit", "times"}) keys.Raw(key);
  }

  // Parameter groups and first weights, against the model's parameters.
  void ReadParameters() {
    std::shared_ptr<graph::ParamLayout> layout;
    Read("optimizer",
         [&] { layout = LayoutOf(*model_, *optimizer_, kAnyShape, graph::DType::kF32); });
    if (layout == nullptr) return;
    Read("weights", [&] {
      // A file that isn't there is a missing path, as one of the data is.
      CheckInitialWeights(config_, *layout, [](const std::string&) {});
    });
    for (const std::string& pattern : IdleRules(*layout, optimizer_->groups)) {
      const std::string path = config::JoinPath("optimizer.paramwise_cfg.custom_keys", pattern);
      findings_.push_back({"param-groups", Level::kWarning, path, config_.Where(path),
                           fmt::format("`{}` fits only parameters that are frozen", pattern),
                           "remove it, or train these parameters"});
    }
  }

  void AddUnused() {
    for (const config::UnusedKey& key : UnusedByTraining(config_)) {
      findings_.push_back({"unused-key", Level::kWarning, key.path, key.where,
                           fmt::format("a run of this config never reads `{}`", key.path),
                           "remove it, or check its spelling and place"});
    }
  }

  Reader config_;
  std::unique_ptr<models::Model> model_;
  std::optional<OptimizerOptions> optimizer_;
  std::vector<Finding> findings_;
  std::vector<std::pair<std::string, Error>> errors_;
};

}  // namespace

std::vector<Finding> CheckConfig(const config::Node& root) { return ConfigCheck(root).Run(); }

void RequireTrainable(const config::Node& root, bool first_weights) {
  ConfigCheck check(root);
  check.Run();
  for (const auto& [rule, error] : check.errors()) {
    if (first_weights || rule != "weights") throw error;
  }
}

}  // namespace xp::train
