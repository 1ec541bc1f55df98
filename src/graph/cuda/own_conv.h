// Convolutions by kernels of our own, which the tuner times against cuDNN's plans. A choice is
// "own:<kernel>", for instance "own:grouped".
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "src/graph/cuda/conv_graph.h"

namespace xp::graph::cuda {

struct OwnConv {
  std::string choice;
  std::unique_ptr<ConvPlan> plan;
};

// Those that compute this problem on the current device; none where there is no device.
std::vector<OwnConv> OwnConvs(const ConvProblem& problem, cudaStream_t stream);

// What each kernel needs to know of the device it is made for.
struct OwnConvTarget {
  int major = 0;  // compute capability
  int multiprocessors = 0;
  cudaStream_t stream = nullptr;
};

// The kernels, each in a file of its own: null for problems that aren't theirs. Bias and ReLU are
// added by OwnConvs: they see neither, but for the stem's, which does both. All repeat bit for bit.
std::unique_ptr<ConvPlan> MakeGroupedConv(const ConvProblem& problem, const OwnConvTarget& target);
std::unique_ptr<ConvPlan> MakeStemConv(const ConvProblem& problem, const OwnConvTarget& target);
std::unique_ptr<ConvPlan> MakeConv3x3Wgrad(const ConvProblem& problem, const OwnConvTarget& target);

}  // namespace xp::graph::cuda
