// Activation checkpointing, as Graph::MakeAgain asks for it.
#pragma once

#include <cstddef>

#include "exp/graph/graph.h"

namespace xp::graph {

// The first `forward_ops` operations are the forward graph, those behind its gradients. What
// gradients read of a block's inside is made by copies of the forward operations right before the
// first of them, from the block's input; a batch norm's copy takes the statistics that were kept.
void MakeBlocksAgain(Graph& g, size_t forward_ops);

}  // namespace xp::graph
