// The ways in which a problem can be put to cuDNN. A choice is "<variant>:<engine>", for instance
// "fused:eng45_k2=5".
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "src/graph/cuda/conv_graph.h"

namespace xp::graph::cuda {

struct ConvVariant {
  std::string name;
  ConvProblem problem;    // what cuDNN is asked for
  bool epilogue = false;  // bias and ReLU by a kernel of our own afterwards
};

// The first is the most natural one; all give the same result but for rounding.
std::vector<ConvVariant> VariantsOf(const ConvProblem& problem);

// The plan of a variant's convolution with what the variant adds.
std::unique_ptr<ConvPlan> Complete(const ConvVariant& variant, const ConvProblem& whole,
                                   std::unique_ptr<ConvPlan> plan, cudaStream_t stream);

}  // namespace xp::graph::cuda
