// Do kernels write nothing but their outputs and their workspace? In a step they would
// change another tensor, whose values then depend on where the memory plan had placed it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "exp/graph/backend.h"

namespace xp::graph {

using InputBytes = std::vector<std::pair<TensorId, std::vector<uint8_t>>>;

// Runs the graph's operations in order, each tensor and each workspace in memory of its own between
// guards, the workspace at several places within a page. Nothing is checked where the graph has
// tensors besides inputs, outputs and temporaries.
void CheckKernelBounds(Backend& backend, const Graph& graph, const InputBytes& inputs);

}  // namespace xp::graph
