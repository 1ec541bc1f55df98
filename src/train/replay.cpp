#include "exp/train/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "src/train/checkpoint_io.h"
#include "src/train/load_weights.h"
#include "src/train/triage.h"

namespace xp::train {
namespace {

namespace fs = std::filesystem;

// The first loss whose bits aren't those of the report; empty where all are.
std::string Difference(const fs::path& report, const StepLosses& losses) {
  const nlohmann::json saved = nlohmann::json::parse(ReadFile(report), nullptr, false);
  const nlohmann::json all =
      saved.is_object() ? saved.value("losses", nlohmann::json()) : nlohmann::json();
  bool fits = all.is_array() && all.size() == losses.parts.size();
  for (size_t p = 0; fits && p < all.size(); ++p) {
    for (const auto& [name, value] : losses.parts[p])
      fits = fits && all[p].is_object() && all[p].contains(name) && all[p][name].is_object() &&
             all[p][name].contains("bits") && all[p][name]["bits"].is_string();
  }
  if (!fits) {
    throw UsageError({.what = "is no report of this step",
                      .where = report.string(),
                      .expected = "the losses of each of its batches, as they were written",
                      .next = "put the folder back as the run wrote it"});
  }
  for (size_t p = 0; p < losses.parts.size(); ++p) {
    for (const auto& [name, value] : losses.parts[p]) {
      const nlohmann::json& term = all[p][name];
      std::string bits = fmt::format("{:016x}", std::bit_cast<uint64_t>(value));
      bool both_nan = std::isnan(value) && term.value("value", nlohmann::json()) == "nan";
      if (term.value("bits", "") != bits && !both_nan)
        return fmt::format("{} was {}, is {}", name, term.value("value", nlohmann::json()).dump(),
                           value);
    }
  }
  return "";
}

// -1 stands for no box.
void CheckLabels(const std::vector<data::Batch>& batches, int classes, const fs::path& path) {
  for (const data::Batch& b : batches) {
    bool detector = !b.box_counts.empty();
    for (size_t i = 0; i < b.labels.size(); ++i) {
      bool used = !detector || static_cast<int32_t>(i % static_cast<size_t>(b.max_boxes)) <
                                   b.box_counts[i / static_cast<size_t>(b.max_boxes)];
      if (used ? b.labels[i] >= 0 && b.labels[i] < classes : b.labels[i] >= -1) continue;
      throw UsageError(
          {.what = fmt::format("label {} is none of the model's {} classes", b.labels[i], classes),
           .where = path.string(),
           .next = "put the folder back as the run wrote it"});
    }
  }
}

}  // namespace

ReplayResult ReplayStep(const config::Node& root, const ReplayOptions& o) {
  config::Reader config(root);
  std::vector<data::Batch> batches = ReadInputs(o.folder / "inputs.safetensors");
  Checkpoint before = LoadCheckpoint(o.folder / "before.safetensors");
  std::vector<models::BatchShape> shapes;
  for (const data::Batch& batch : batches) {
    models::BatchShape shape{batch.n, batch.height, batch.width, std::max(1, batch.max_boxes)};
    if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
  }
  TrainOptions options;
  options.device = o.device;
  options.threads = o.threads;
  options.plans = o.plans;
  options.seed = before.info.seed;
  std::unique_ptr<Setup> setup = PrepareStep(config, options, shapes);
  RestoreCheckpoint(before, *setup, options.seed);
  CheckLabels(batches, setup->model->num_classes(), o.folder / "inputs.safetensors");
  StepGroup group;
  group.step = before.info.step;
  auto lr = before.info.metadata.find("exp.lr");
  group.lr = lr == before.info.metadata.end() ? 0 : std::strtod(lr->second.c_str(), nullptr);
  RunBatches(*setup, options.seed, batches, false, &group);
  StepLosses losses = WaitForLosses(*setup, group);
  ReplayResult result;
  result.text =
      fmt::format("step {} again, lr {:g}, {} images\n", group.step, group.lr, group.images);
  for (const auto& [name, value] : losses.mean)
    result.text += fmt::format("  {} {}\n", name, ValueText(value));
  result.text += "  gradients by layer: norm, largest\n";
  for (const ParamReport& r : GradientReport(*setup)) {
    result.text += fmt::format(
        "    {:10.4g}  {:10.4g}  {}{}\n", r.norm, r.largest, r.name,
        r.non_finite > 0 ? fmt::format("  ({} of {} not finite)", r.non_finite, r.elements) : "");
  }
  result.difference = Difference(o.folder / "report.json", losses);
  result.same = result.difference.empty();
  return result;
}

}  // namespace xp::train
