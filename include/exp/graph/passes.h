// Rewrites of a forward graph that keep its meaning and make it faster; run before AppendBackward.
#pragma once

#include "exp/graph/graph.h"

namespace xp::graph {

struct PassOptions {
  bool fuse_norm = true;  // batch norm + add + ReLU become one operation; and the device may
                          // rewrite the whole step (step_passes.h)
  bool fuse_conv = true;  // convolution or linear + ReLU likewise
};

void RunPasses(Graph& g, const PassOptions& options);

}  // namespace xp::graph
