// How fast a model trains: whole steps (forward, losses, backward, SGD) on data that is already on
// the device, so that loading doesn't count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exp/graph/backend.h"

namespace xp::train {

struct ThroughputCase {
  std::string model = "resnet50";  // of models::Zoo()
  int batch = 32;
  std::string precision = "fp32";  // fp32 | tf32 | bf16 | fp16
  std::string device = "auto";     // auto | cpu | cuda | cuda:N
  int threads = 0;                 // CPU
  bool fusion = true;              // the passes of graph/passes.h
  bool deterministic = true;
  int height = 0, width = 0;  // 0: the model's own size
  // Steps of a repeat are chosen so that it lasts about this long; at least 3.
  double seconds_a_repeat = 1.0;
  int repeats = 3;
  int warmup = 5;
  bool profile = false;  // also the time of each operation
};

enum class ThroughputStatus { kOk, kMemoryLimit, kFailed };

struct OperationTime {
  std::string name, type;
  double milliseconds = 0;
};

struct ThroughputResult {
  ThroughputStatus status = ThroughputStatus::kOk;
  std::string reason;  // what failed, or bytes needed and free
  std::string device;
  double images_per_second = 0;  // of the median repeat
  double milliseconds = 0;       // a step, of the median repeat
  double spread = 0;             // (slowest - fastest) / median over the repeats
  uint64_t bytes = 0;            // flat buffers, activations, workspaces, inputs
  double setup_seconds = 0;      // building, planning, first step
  double loss = 0;               // of the last step, to see that it trained
  std::vector<OperationTime> profile;
};

// Never throws for what a case does: a case that can't run is a result with its reason.
ThroughputResult MeasureThroughput(const ThroughputCase& c);

}  // namespace xp::train
