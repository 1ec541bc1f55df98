// Adds the gradient operations of everything that the seeds (Graph::SeedGradient) depend on.
#pragma once

#include "exp/graph/graph.h"

namespace xp::graph {

// Afterwards each trainable parameter that the losses depend on has one gradient tensor in kGrad or
// kGradCompute. Contributions are added in a fixed order (consumers in reverse order of execution).
// With Graph::made_again() blocks the step isn't rewritten by a device (fusible() becomes false).
void AppendBackward(Graph& g);

}  // namespace xp::graph
