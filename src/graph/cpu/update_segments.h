// What the update kernels share: the trained segments cut into chunks of bounded size, so that a
// loop over chunks splits evenly over threads and a sum over them doesn't depend on their number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exp/graph/backend.h"
#include "exp/graph/ops.h"
#include "src/graph/cpu/values.h"

namespace xp::graph::cpu {

struct Chunk {
  int segment = 0;
  int64_t begin = 0, end = 0;  // elements of the flat buffers
};

inline constexpr int64_t kChunkElements = 16384;

inline std::vector<Chunk> CutSegments(const std::vector<Segment>& segments) {
  std::vector<Chunk> chunks;
  for (size_t s = 0; s < segments.size(); ++s) {
    const int64_t end = segments[s].offset + segments[s].count;
    for (int64_t begin = segments[s].offset; begin < end; begin += kChunkElements) {
      chunks.push_back({static_cast<int>(s), begin, std::min(begin + kChunkElements, end)});
    }
  }
  return chunks;
}

// A chunk's gradient as floats, from its first element on. The update ops have in common: input 0
// grad, 1 [grad_compute] (of type `compute`) and, for those that may read it, [accumulated] at
// index `accumulated`. `scratch`: kChunkElements.
inline const float* GradientOf(const KernelArgs& args, const Segment& segment, const Chunk& chunk,
                               DType compute, float* scratch, bool use_accumulated,
                               size_t accumulated = 2) {
  if (use_accumulated) return args.In<float>(accumulated) + chunk.begin;
  if (!segment.compute_grad) {
    return args.In<float>(0) + segment.grad_offset + (chunk.begin - segment.offset);
  }
  return InValues(compute, args.in[1]).Floats(chunk.begin, chunk.end - chunk.begin, scratch);
}

}  // namespace xp::graph::cpu
