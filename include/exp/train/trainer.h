// Trains a model in this process: resolved config in, events out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exp/base/stop.h"
#include "exp/train/events.h"

namespace xp::config {
class Node;
}
namespace xp::graph {
class Backend;
}

namespace xp::train {

struct TrainOptions {
  std::string device = "auto";  // auto | cpu | cuda | cuda:N
  uint64_t seed = 0;
  std::filesystem::path work_dir;  // checkpoints go here; made when absent
  // A checkpoint, or a folder: then its newest one that is intact, with a warning
  // ("checkpoint.damaged") for each that isn't. Empty: start from the config's load_from or from
  // scratch.
  std::filesystem::path resume_checkpoint;
  int threads = 0;                 // compute threads, 0: all cores of this machine
  int max_epochs = -1;             // -1: the config's runner.max_epochs
  std::vector<std::string> plans;  // StartEvent::plans of the run that this one repeats
  // Save, emit kInterrupted, return; while the steps are built Error of kind kInterrupted.
  StopFlag stop = nullptr;
  // Puts the opened device into another one that forwards to it: to measure, or to fail on purpose.
  std::function<std::unique_ptr<graph::Backend>(std::unique_ptr<graph::Backend>)> wrap_backend;
  // Written into each checkpoint's metadata: "exp.run", "exp.config" (identity of the config).
  std::map<std::string, std::string> record_metadata;
};

// A training that is ready for its first step.
class Training {
 public:
  // Reads config, data, weights and the checkpoint to go on from, and builds the steps: what the
  // config, the data or the checkpoint do wrong is a UsageError here wherever it can be known
  // before the first step. Changes nothing in work_dir, and emits warnings only.
  Training(const config::Node& resolved, const TrainOptions& options, Observer& observer);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // Epochs that Run will train; 0 where the resumed checkpoint is the end already.
  int epochs_left() const;

  // Runs to the end, or to an interruption, and emits exactly one EndEvent in both cases. Throws
  // UsageError for what the data do wrong (an image that can't be decoded) and JobError for what
  // else goes wrong on the way; no EndEvent is emitted then. Called once, from the thread that made
  // the training.
  void Run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Both at once.
void Train(const config::Node& resolved, const TrainOptions& options, Observer& observer);

}  // namespace xp::train
