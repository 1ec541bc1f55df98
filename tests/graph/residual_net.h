// A small residual network, a training step of it as a graph, and training it for some steps.
#pragma once

#include <vector>

#include "exp/graph/step_passes.h"
#include "graph/run_graph.h"

namespace xp::graph {

struct ResidualNetOptions {
  int batch = 4, size = 12, width = 16;
  bool pool = false;         // a max pool after the first convolution
  bool squeeze = false;      // squeeze-and-excitation in each block
  bool join_dgrads = false;  // JoinDgrads() for every type and shape
  bool delay = false;        // DelayWideOps()
  bool make_again = false;   // Graph::MakeAgain() of each block
  bool as_asked = false;     // as a Program rewrites it by itself, whatever `passes` says
};

// A convolution, two blocks with a downsampling branch (the second of stride 2), between them one
// without; cross-entropy, SGD. Backward and update included.
Graph ResidualNet(const ResidualNetOptions& options, DType compute);

struct Trained {
  std::vector<float> losses, params, states;
};

// `steps` steps on fixed images with the passes given (and no other, whatever the backend asks
// for).
Trained TrainResidualNet(Backend& backend, DType compute, const StepPasses& passes, int steps,
                         const ResidualNetOptions& options = {});

}  // namespace xp::graph
