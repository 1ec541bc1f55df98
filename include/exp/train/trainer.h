// Trains a model in this process: resolved config in, events out.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

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
  std::filesystem::path work_dir;  // checkpoints and plan notes go here; made when absent
  // A checkpoint, or a folder: then its newest one that is intact, with a warning
  // ("checkpoint.damaged") for each that isn't. Empty: start from the config's load_from or from
  // scratch.
  std::filesystem::path resume_checkpoint;
  int threads = 0;                 // compute threads, 0: all cores of this machine
  int max_epochs = -1;             // -1: the config's runner.max_epochs
  std::vector<std::string> plans;  // StartEvent::plans of the run that this one repeats
  const std::atomic<bool>* stop =
      nullptr;  // set by a signal handler: save, emit kInterrupted, return
  // Puts the opened device into another one that forwards to it: to measure, or to fail on purpose.
  std::function<std::unique_ptr<graph::Backend>(std::unique_ptr<graph::Backend>)> wrap_backend;
  // Written into each checkpoint's metadata: "exp.run", "exp.config" (identity of the config).
  std::map<std::string, std::string> record_metadata;
};

// Runs to the end, or to an interruption, and emits exactly one EndEvent in both cases. Throws
// UsageError for what the config or the data do wrong (before the first step wherever that can be
// known) and JobError for what goes wrong on the way; no EndEvent is emitted then.
void Train(const config::Node& resolved, const TrainOptions& options, Observer& observer);

}  // namespace xp::train
