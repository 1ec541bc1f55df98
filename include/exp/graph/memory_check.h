// Writes patterns into a device's free memory and reads them back, for `exp doctor`.
#pragma once

#include <cstdint>

#include "exp/base/stop.h"

namespace xp::graph {

struct MemoryCheck {
  uint64_t bytes = 0;      // that were tested
  uint64_t bad_words = 0;  // 8-byte words that read back otherwise, over all rounds
  int rounds = 0;
  double seconds = 0;
};

// Tests memory of the GPU number `device` that nobody uses, up to `max_bytes`, and leaves 512 MiB
// of it alone. Each word is written as a function of its address and of the round; odd rounds write
// the complement. Throws UsageError where there is no such GPU, JobError where it fails, Error of
// kind kInterrupted when it is stopped.
MemoryCheck CheckCudaMemory(int device, uint64_t max_bytes, int rounds, StopFlag stop = nullptr);

// The same for memory of this process.
MemoryCheck CheckHostMemory(uint64_t bytes, int rounds, StopFlag stop = nullptr);

}  // namespace xp::graph
