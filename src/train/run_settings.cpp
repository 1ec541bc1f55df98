#include "src/train/run_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "exp/graph/autodiff.h"
#include "exp/graph/passes.h"
#include "exp/train/coco_eval.h"

namespace xp::train {
namespace {

using config::Reader;

void CheckMetrics(const models::Model& model, const Reader& config) {
  std::string gives = model.task() == models::Task::kClassification ? "accuracy" : "bbox";
  for (const std::string& metric : config.Strings("evaluation.metric", {gives})) {
    if (metric == gives) continue;
    config.Bad("evaluation.metric", "is not for this model, which gives no `" + metric + "`", gives,
               "set evaluation.metric to " + gives);
  }
}

// Names that an evaluation of the model gives, without those of single classes.
std::vector<std::string> MetricNames(const models::Model& model) {
  if (model.task() == models::Task::kDetection)
    return {kCocoStatNames.begin(), kCocoStatNames.end()};
  std::vector<std::string> names{"top1"};
  if (model.num_classes() > 5) names.emplace_back("top5");
  return names;
}

// `save_best` ("auto": the mAP or top1). A metric that is never there would keep nothing.
std::string ReadBestMetric(const Reader& config, const models::Model& model) {
  const char* key = "evaluation.save_best";
  std::string metric = config.String(key, "");
  if (metric.empty()) return "";
  if (!config.Has("data.val"))
    config.Bad(key, "is given although nothing is evaluated", "a `data.val`, or null", "delete it");
  const std::vector<std::string> names = MetricNames(model);
  if (metric == "auto") return names.front();
  const std::string of_class = model.task() == models::Task::kDetection ? "bbox_AP/" : "accuracy/";
  if (metric.starts_with(of_class) && metric.size() > of_class.size()) return metric;
  if (std::find(names.begin(), names.end(), metric) == names.end()) {
    config.Bad(key, fmt::format("is not for this model, which gives no `{}`", metric),
               fmt::format("auto, {} or {}CLASS", fmt::join(names, ", "), of_class));
  }
  return metric;
}

NonFinitePolicy ReadNonFinite(const Reader& config) {
  NonFinitePolicy policy;
  std::string action = config.Choice("non_finite.policy", {"stop", "skip", "roll_back"}, "stop");
  policy.action = action == "stop"   ? NonFinitePolicy::Action::kStop
                  : action == "skip" ? NonFinitePolicy::Action::kSkip
                                     : NonFinitePolicy::Action::kRollBack;
  policy.lr_factor = config.Double("non_finite.lr_factor", 0.5);
  if (!(policy.lr_factor > 0 && policy.lr_factor < 1))
    config.Bad("non_finite.lr_factor", "is out of range", "a number between 0 and 1");
  policy.max_events = config.IntWithin("non_finite.max_events", 5, 0, 1000000);
  return policy;
}

constexpr int kMostEpochs = 1000000;

}  // namespace

RunSettings ReadRunSettings(const Reader& config, const models::Model& model) {
  RunSettings settings;
  settings.max_epochs = -1;
  if (config.Has("runner.max_epochs"))
    settings.max_epochs = config.IntWithin("runner.max_epochs", 0, 0, kMostEpochs);
  config.String("runner.type", "");
  CheckMetrics(model, config);
  settings.eval_interval = config.IntWithin("evaluation.interval", 1, 0, kMostEpochs);
  settings.checkpoint_interval = config.IntWithin("checkpoint_config.interval", 1, 0, kMostEpochs);
  settings.keep.last = config.IntWithin("checkpoint_config.max_keep_ckpts", 0, -1, kMostEpochs);
  settings.keep.every = config.IntWithin("checkpoint_config.keep_every", 0, 0, kMostEpochs);
  settings.keep.best_metric = ReadBestMetric(config, model);
  settings.non_finite = ReadNonFinite(config);
  return settings;
}

std::vector<config::UnusedKey> UnusedByTraining(const Reader& config) {
  constexpr std::array<std::string_view, 11> kParts = {
      "model",     "data.train", "data.val",          "optimizer",  "optimizer_config",
      "lr_config", "evaluation", "checkpoint_config", "non_finite", "ema",
      "reset"};
  const bool from_file = config.Has("load_from");
  std::vector<config::UnusedKey> unused;
  for (config::UnusedKey& key : config.UnusedKeys()) {
    bool ours = std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
      return key.path == part || key.path.starts_with(std::string(part) + ".");
    });
    bool weights = key.path.starts_with("model.backbone.init_cfg") ||
                   (from_file && key.path.starts_with("reset"));
    const bool not_evaluated = key.path == "data.val";  // none of it was read
    if (ours && !weights && !not_evaluated) unused.push_back(std::move(key));
  }
  return unused;
}

std::shared_ptr<graph::ParamLayout> LayoutOf(const models::Model& model,
                                             const OptimizerOptions& optimizer,
                                             const models::BatchShape& shape,
                                             graph::DType compute) {
  auto layout = std::make_shared<graph::ParamLayout>();
  graph::Graph g(layout, compute);
  model.BuildTraining(g, shape);
  graph::RunPasses(g, {});
  graph::AppendBackward(g);
  AppendUpdate(g, optimizer);
  return layout;
}

}  // namespace xp::train
