#include "exp/train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>

#include "exp/base/error.h"
#include "exp/base/file.h"

namespace xp::train {
namespace {

constexpr const char* kFormat = "checkpoint 1";
constexpr const char* kContentKey = "exp.content";
const std::string kMetricPrefix = "exp.metric.";

std::map<std::string, std::string> ToMetadata(const CheckpointInfo& info) {
  std::map<std::string, std::string> metadata = info.metadata;
  metadata["exp.format"] = kFormat;
  metadata["exp.epoch"] = std::to_string(info.epoch);
  metadata["exp.step"] = std::to_string(info.step);
  metadata["exp.batch"] = std::to_string(info.batch);
  metadata["exp.seed"] = std::to_string(info.seed);
  for (const auto& [name, value] : info.metrics)
    metadata[kMetricPrefix + name] = fmt::format("{}", value);
  return metadata;
}

template <typename T>
T ParseNumber(const TensorFile& file, const std::string& key) {
  auto at = file.metadata().find(key);
  T value{};
  if (at != file.metadata().end()) {
    const char* end = at->second.data() + at->second.size();
    auto [stop, error] = std::from_chars(at->second.data(), end, value);
    if (error == std::errc() && stop == end) return value;
  }
  throw UsageError({.what = fmt::format("its metadata `{}` is {}", key,
                                        at == file.metadata().end() ? "missing" : "no number"),
                    .where = file.path(),
                    .expected = "a number",
                    .next = "the checkpoint is damaged or was edited; use another one"});
}

CheckpointInfo FromMetadata(const TensorFile& file) {
  CheckpointInfo info;
  info.metadata = file.metadata();
  info.epoch = ParseNumber<int>(file, "exp.epoch");
  info.step = ParseNumber<int64_t>(file, "exp.step");
  info.batch = ParseNumber<int64_t>(file, "exp.batch");
  info.seed = ParseNumber<uint64_t>(file, "exp.seed");
  if (info.epoch < 0 || info.step < 0 || info.batch < 0) {
    throw UsageError({.what = "its metadata counts below zero",
                      .where = file.path(),
                      .next = "the checkpoint is damaged or was edited; use another one"});
  }
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with(kMetricPrefix)) {
      info.metrics[key.substr(kMetricPrefix.size())] = ParseNumber<double>(file, key);
      info.metadata.erase(key);
    }
  }
  for (const char* key :
       {"exp.format", "exp.epoch", "exp.step", "exp.batch", "exp.seed", kContentKey}) {
    info.metadata.erase(key);
  }
  return info;
}

bool IsCheckpoint(const TensorFile& file) {
  auto at = file.metadata().find("exp.format");
  return at != file.metadata().end() && at->second.starts_with("checkpoint ");
}

void CheckFormat(const TensorFile& file) {
  if (!IsCheckpoint(file)) {
    throw UsageError({.what = "holds weights, but not the state that resuming needs",
                      .where = file.path(),
                      .expected = "a checkpoint written by exp",
                      .next = "start from its weights with `load_from`"});
  }
  if (file.metadata().at("exp.format") != kFormat) {
    throw UsageError({.what = fmt::format("has the format `{}`", file.metadata().at("exp.format")),
                      .where = file.path(),
                      .expected = fmt::format("`{}`", kFormat),
                      .next = "use the version of exp that wrote it, or a newer one"});
  }
}

void CheckContent(const TensorFile& file) {
  auto at = file.metadata().find(kContentKey);
  std::string hash = HashSafetensors(file, kContentKey).Hex();
  if (at != file.metadata().end() && at->second == hash) return;
  throw UsageError({.what = fmt::format("is damaged: its content hashes to {}", hash),
                    .where = file.path(),
                    .expected = at == file.metadata().end() ? "a content hash inside" : at->second,
                    .next = "resume from another checkpoint"});
}

// "epoch_3.safetensors", "iter_500.safetensors": what CheckpointFileName makes.
bool HasCheckpointName(const std::filesystem::path& path) {
  std::string stem = path.stem().string();
  return path.extension() == ".safetensors" &&
         (stem.starts_with("epoch_") || stem.starts_with("iter_"));
}

CheckpointEntry ReadEntry(const std::filesystem::path& path, bool* is_checkpoint) {
  CheckpointEntry entry;
  entry.path = path;
  *is_checkpoint = true;
  try {
    std::unique_ptr<TensorFile> file = OpenSafetensors(path);
    *is_checkpoint = IsCheckpoint(*file);
    if (*is_checkpoint) {
      CheckFormat(*file);
      entry.info = FromMetadata(*file);
    }
  } catch (const Error& e) {
    entry.problem = e.text().what;
  }
  return entry;
}

}  // namespace

std::vector<std::string> OptimizerSlots(const std::string& optimizer) {
  std::string name = optimizer;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (name == "sgd" || name == "lars") return {"momentum"};
  if (name == "adam" || name == "adamw") return {"exp_avg", "exp_avg_sq"};
  throw UsageError({.what = fmt::format("there is no optimizer `{}`", optimizer),
                    .expected = "SGD, Adam, AdamW or LARS"});
}

std::string CheckpointFileName(const CheckpointInfo& info) {
  return info.batch == 0 ? fmt::format("epoch_{}.safetensors", info.epoch)
                         : fmt::format("iter_{}.safetensors", info.step);
}

Hash128 SaveCheckpoint(const std::filesystem::path& path, const CheckpointInfo& info,
                       std::span<const TensorView> tensors) {
  std::map<std::string, std::string> metadata = ToMetadata(info);
  metadata[kContentKey] = HashSafetensors(tensors, metadata, kContentKey).Hex();
  return WriteSafetensors(path, tensors, metadata);
}

Checkpoint LoadCheckpoint(const std::filesystem::path& path) {
  Checkpoint checkpoint;
  checkpoint.file = OpenSafetensors(path);
  CheckFormat(*checkpoint.file);
  CheckContent(*checkpoint.file);
  checkpoint.info = FromMetadata(*checkpoint.file);
  return checkpoint;
}

std::vector<CheckpointEntry> ListCheckpoints(const std::filesystem::path& folder) {
  std::vector<CheckpointEntry> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (!HasCheckpointName(at->path()) || !at->is_regular_file(ignored)) continue;
    bool is_checkpoint = false;
    CheckpointEntry entry = ReadEntry(at->path(), &is_checkpoint);
    if (is_checkpoint) entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const CheckpointEntry& a, const CheckpointEntry& b) {
    if (a.problem.empty() != b.problem.empty()) return a.problem.empty();
    return a.info.step != b.info.step ? a.info.step < b.info.step : a.path < b.path;
  });
  return entries;
}

void RemoveUnfinished(const std::filesystem::path& folder) {
  RemoveAbandoned(folder, [](const std::string& name) { return HasCheckpointName(name); });
}

std::optional<Checkpoint> LoadNewestCheckpoint(
    const std::filesystem::path& folder,
    const std::function<void(const std::filesystem::path&, const std::string&)>& warn) {
  std::vector<CheckpointEntry> entries = ListCheckpoints(folder);
  if (entries.empty()) return std::nullopt;
  // Damaged headers come first here: whether they were newer can't be known.
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (!entry->problem.empty()) {
      warn(entry->path, entry->problem);
      continue;
    }
    try {
      return LoadCheckpoint(entry->path);
    } catch (const Error& e) {
      warn(entry->path, e.text().what);
    }
  }
  throw UsageError({.what = fmt::format("none of its {} checkpoints is intact", entries.size()),
                    .where = folder.string(),
                    .next = "start again, or restore one from a copy"});
}

std::vector<std::filesystem::path> Superfluous(const std::vector<CheckpointEntry>& checkpoints,
                                               const KeepPolicy& policy) {
  std::vector<const CheckpointEntry*> intact;
  for (const CheckpointEntry& entry : checkpoints) {
    if (entry.problem.empty()) intact.push_back(&entry);
  }
  std::stable_sort(intact.begin(), intact.end(),
                   [](const CheckpointEntry* a, const CheckpointEntry* b) {
                     return a->info.step < b->info.step;
                   });
  const CheckpointEntry* best = nullptr;
  double best_value = 0;
  for (const CheckpointEntry* entry : intact) {
    auto metric = entry->info.metrics.find(policy.best_metric);
    if (metric == entry->info.metrics.end()) continue;
    double value = policy.higher_is_better ? metric->second : -metric->second;
    if (best == nullptr || value > best_value) {  // of equals the earliest
      best = entry;
      best_value = value;
    }
  }
  std::vector<std::filesystem::path> gone;
  for (size_t i = 0; i < intact.size(); ++i) {
    const CheckpointInfo& info = intact[i]->info;
    bool newest = policy.last <= 0 || i + static_cast<size_t>(policy.last) >= intact.size();
    bool periodic = policy.every > 0 && info.batch == 0 && info.epoch % policy.every == 0;
    if (!newest && !periodic && intact[i] != best) gone.push_back(intact[i]->path);
  }
  return gone;
}

}  // namespace xp::train
