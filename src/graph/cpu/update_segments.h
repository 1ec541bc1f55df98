// What the update kernels share: the trained segments cut into chunks of bounded size, so that a
// loop over chunks splits evenly over threads and a sum over them doesn't depend on their number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exp/graph/backend.h"
#include "exp/graph/ops.h"

namespace xp::graph::cpu {

struct Chunk {
  int segment = 0;
  int64_t begin = 0, end = 0;  // elements of the flat buffers
};

inline std::vector<Chunk> CutSegments(const std::vector<Segment>& segments) {
  constexpr int64_t kChunk = 16384;
  std::vector<Chunk> chunks;
  for (size_t s = 0; s < segments.size(); ++s) {
    const int64_t end = segments[s].offset + segments[s].count;
    for (int64_t begin = segments[s].offset; begin < end; begin += kChunk) {
      chunks.push_back({static_cast<int>(s), begin, std::min(begin + kChunk, end)});
    }
  }
  return chunks;
}

// Where a segment's gradient is. The update ops have in common: input 0 grad, 1 [grad_compute] and,
// for those that may read it, [accumulated] at index `accumulated`. Compute type is f32 here.
inline const float* GradientOf(const KernelArgs& args, const Segment& segment, bool use_accumulated,
                               size_t accumulated = 2) {
  if (use_accumulated) return args.In<float>(accumulated);
  return args.In<float>(segment.compute_grad ? 1 : 0);
}

}  // namespace xp::graph::cpu
