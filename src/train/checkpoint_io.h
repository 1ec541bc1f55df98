// Between a run's flat state and its checkpoint files.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "exp/train/checkpoint.h"
#include "exp/train/events.h"
#include "src/train/setup.h"

namespace xp::train {

// Sums of the loss terms over the steps of an epoch, kept across an interruption.
class LossSums {
 public:
  void Add(const NamedValues& losses);
  NamedValues Means() const;
  // "count name=hexfloat ...": exact, for a checkpoint's metadata.
  std::string Text() const;
  static LossSums Parse(const std::string& text);

 private:
  NamedValues sums_;
  int64_t count_ = 0;
};

// Where a resumed run goes on.
struct ResumePoint {
  int epoch = 0;
  int64_t batch = 0, step = 0;
  LossSums sums;
  double lr_scale = 1;  // what roll backs have made of the learning rate ("exp.lr_scale")
  int incidents = 0;    // numbers that weren't finite so far ("exp.nonfinite_events")
  std::map<std::string, double> metrics;  // of this state
  // In the middle of an epoch, where the checkpoint has it: what the epoch began with.
  std::optional<FlatState> epoch_begin;
  int64_t epoch_begin_step = 0;
};

// The parts of a checkpoint beside the state itself.
struct CheckpointExtras {
  const FlatState* epoch_begin = nullptr;  // for a roll back behind `epoch_begin_step`
  int64_t epoch_begin_step = 0;
  std::string name;  // of the file, instead of CheckpointFileName
};

CheckpointEvent WriteRunCheckpoint(const std::filesystem::path& work_dir,
                                   const CheckpointInfo& info, const FlatState& state,
                                   const Setup& setup, const CheckpointExtras& extras = {});
// Of the checkpoints of this run ("exp.run") alone: others in the folder aren't this policy's.
void RemoveSuperfluous(const std::filesystem::path& work_dir, const KeepPolicy& policy,
                       const std::string& run);

// Throws UsageError naming the tensors when the checkpoint is of another model or optimizer, or of
// another seed.
ResumePoint RestoreCheckpoint(const Checkpoint& checkpoint, Setup& setup, uint64_t seed);

// Throws UsageError where the point lies behind the end of its epoch, or of training: another
// config or other data, confirmed with --accept-changes, may have shorter epochs, or fewer of them.
void RequireWithin(const ResumePoint& point, const Setup& setup, const std::string& file);

}  // namespace xp::train
