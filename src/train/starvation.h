// Says what keeps a device waiting for data.
#pragma once

#include <optional>
#include <string>

#include "exp/data/loader.h"

namespace xp::train {

// An epoch's figures. The wait for its first batch isn't in them: that one every epoch has.
struct FeedFigures {
  double train_seconds = 0, wait_seconds = 0;
  int workers = 1;            // threads of the loader
  int cores = 1;              // that this process may use
  data::StageSeconds stages;  // of the loader's threads
};

struct Starvation {
  std::string bottleneck;  // "disk", "decode", "resize", "workers" or "prefetch"
  std::string message;
};

// What to say about an epoch, when more than a tenth of it and more than a second was spent
// waiting. Reading that takes most of the threads' time is the disk's fault. Otherwise more threads
// help as long as there are cores ("workers"); when all are busy it is decoding, or resizing and
// augmenting. Threads that were idle while the device waited had too few batches to be ahead with
// ("prefetch").
std::optional<Starvation> FindStarvation(const FeedFigures& figures);

}  // namespace xp::train
