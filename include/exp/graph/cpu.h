// What is particular to the CPU backend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exp/graph/backend.h"

namespace xp::graph {

// What this processor, within ONEDNN_MAX_CPU_ISA, does with bf16: kNone means that convolutions
// have no code for it (it takes AVX-512), kEmulated that they have some which is slower than fp32,
// kNative that there are instructions for it (AVX512_BF16, AMX).
enum class CpuBf16 : uint8_t { kNone, kEmulated, kNative };
CpuBf16 CpuBf16Support();

struct CpuOptions {
  int threads = 0;  // 0: all cores that this process may use. The number decides bits.
  // Whether steps are rewritten (step_passes.h) to spare memory traffic. CreateCpuBackend(threads),
  // the reference, rewrites nothing.
  bool step_passes = false;
  // PlanNotes() of an earlier run, whose step passes are then used.
  std::vector<std::string> plans;
};
std::unique_ptr<Backend> CreateCpuBackend(const CpuOptions& options);

}  // namespace xp::graph
