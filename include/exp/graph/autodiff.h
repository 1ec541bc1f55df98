// Adds the gradient operations of everything that the seeds (Graph::SeedGradient) depend on.
#pragma once

#include "exp/graph/graph.h"

namespace xp::graph {

// Afterwards each trainable parameter that the losses depend on has one gradient tensor in kGrad or
// kGradCompute. Contributions are added in a fixed order (consumers in reverse order of execution).
void AppendBackward(Graph& g);

}  // namespace xp::graph
