// Checkpoints: safetensors files that torchvision can load, with what resuming needs beside the
// weights.
//
// Tensors: the model's under torchvision's names, in file order (graph::ToFileOrder);
// `optimizer.<slot>.<name>` for optimizer state (slots as OptimizerSlots names them), `ema.<name>`
// for averages. Metadata, all text: `exp.format`, `exp.epoch`, `exp.step`, `exp.batch`, `exp.seed`,
// `exp.metric.<name>`, `exp.content` and whatever the caller adds (`exp.run`, `exp.config`, ...).
// One from the middle of an epoch that may be rolled back also has the whole state that the epoch
// began with, each name behind `epoch_begin.`, and `exp.epoch_begin_step`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exp/base/hash.h"
#include "exp/train/safetensors.h"
#include "exp/train/tensor_file.h"

namespace xp::train {

struct CheckpointInfo {
  int epoch = 0;      // epochs completed
  int64_t step = 0;   // optimizer steps done, over all epochs
  int64_t batch = 0;  // batches of the epoch under way that are used up; 0 at the end of an epoch
  uint64_t seed =
      0;  // of the run: every random number is keyed by it, so no other generator state exists
  std::map<std::string, double> metrics;  // "bbox_mAP", ... of this state, where it was evaluated
  std::map<std::string, std::string> metadata;  // the rest
};

// The names under which files hold an optimizer's state, in the order of its slots: sgd and lars
// have "momentum", adam and adamw "exp_avg" and "exp_avg_sq" (torch's words).
std::vector<std::string> OptimizerSlots(const std::string& optimizer);
inline std::string OptimizerTensorName(const std::string& slot, const std::string& parameter) {
  return "optimizer." + slot + "." + parameter;
}
inline constexpr const char* kEpochBegin = "epoch_begin.";
inline std::string EmaTensorName(const std::string& parameter) { return "ema." + parameter; }
// The averaged weights are kept as one more slot.
inline constexpr const char* kEmaSlot = "ema";
inline std::string SlotTensorName(const std::string& slot, const std::string& parameter) {
  return slot == kEmaSlot ? EmaTensorName(parameter) : OptimizerTensorName(slot, parameter);
}

// "epoch_12.safetensors" at an epoch's end, "iter_5000.safetensors" within one.
std::string CheckpointFileName(const CheckpointInfo& info);

// Writes atomically; returns the content's hash. Throws JobError where the disk refuses.
Hash128 SaveCheckpoint(const std::filesystem::path& path, const CheckpointInfo& info,
                       std::span<const TensorView> tensors);

struct Checkpoint {
  CheckpointInfo info;
  std::unique_ptr<TensorFile> file;
};

// Reads and verifies the content against the hash inside. Throws UsageError: damaged, or weights
// only.
Checkpoint LoadCheckpoint(const std::filesystem::path& path);

struct CheckpointEntry {
  std::filesystem::path path;
  CheckpointInfo info;
  std::string problem;  // not empty: the header can't be read, and `info` is empty
};

// The checkpoints in a folder, oldest step first, damaged ones at the end. Reads headers only.
// Other files are left out; a folder that doesn't exist has none.
std::vector<CheckpointEntry> ListCheckpoints(const std::filesystem::path& folder);

// The newest one whose content is intact; nullopt where there is none at all. Each damaged one that
// is passed over is told to `warn` (path, problem). Throws UsageError when all of them are damaged.
std::optional<Checkpoint> LoadNewestCheckpoint(
    const std::filesystem::path& folder,
    const std::function<void(const std::filesystem::path&, const std::string&)>& warn);

// Removes what processes that were killed while they wrote a checkpoint left in the folder.
void RemoveUnfinished(const std::filesystem::path& folder);

// Which to keep: the newest `last`, the best by a metric, and each `every` epochs. A checkpoint
// goes only when none of these asks for it.
struct KeepPolicy {
  int last = 0;             // 0: all
  std::string best_metric;  // empty: none kept for being best
  bool higher_is_better = true;
  int every = 0;  // epochs; 0: none kept for that
};

// What the policy lets go of. Damaged files are not among it: they are evidence, and not counted.
std::vector<std::filesystem::path> Superfluous(const std::vector<CheckpointEntry>& checkpoints,
                                               const KeepPolicy& policy);

}  // namespace xp::train
