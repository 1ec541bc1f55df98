// Decides before the first step where each temporary lives, so that the peak is known and nothing
// is allocated while running.
#pragma once

#include <cstddef>
#include <vector>

#include "exp/graph/graph.h"

namespace xp::graph {

inline constexpr size_t kTensorAlignment = 256;

struct MemoryPlan {
  std::vector<size_t> offset;     // a tensor, in bytes into the arena; only kTemp tensors have one
  std::vector<size_t> workspace;  // an op: offset of its workspace in the arena
  size_t arena_bytes = 0;         // temporaries and workspaces
  size_t persistent_bytes = 0;    // inputs and outputs
};

// An output that may take the place of an input of its op (indices): of each element the input is
// read, by whoever writes it, before the output is written.
struct InPlace {
  size_t output = 0, input = 0;
};
// What the kernels on GPUs (kernels/*.cu) allow, for each op, the most wanted first.
std::vector<std::vector<InPlace>> GpuInPlace(const Graph& g);

// `workspace_bytes`: what each op's kernel asked for. Two tensors share bytes only if they are
// never alive at once; a tensor lives from the op that writes it first to the last that uses it.
// `in_place`: an output shares an input's bytes where its op is the last to use that.
MemoryPlan PlanMemory(const Graph& g, const std::vector<size_t>& workspace_bytes,
                      const std::vector<std::vector<InPlace>>& in_place = {});

}  // namespace xp::graph
