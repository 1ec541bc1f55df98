// The ways in which a problem can be put to cuDNN. A choice is "<variant>:<engine>", for instance
// "fused:eng45_k2=5".
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "src/graph/cuda/conv_graph.h"

namespace xp::graph::cuda {

// What is done to the input and the weights of a layer over images, of few channels.
enum class InputForm : uint8_t {
  kAsIs,
  kPadChannels,   // zeros up to problem.c channels
  kSpaceToDepth,  // 7 x 7 of stride 2 as 4 x 4 of stride 1 over 16 channels
  kSpaceToRows,   // the same as 4 x 1 of stride 1 over 48 channels
};

struct ConvVariant {
  std::string name;
  ConvProblem problem;    // what cuDNN is asked for
  bool epilogue = false;  // bias and ReLU by a kernel of our own afterwards
  InputForm input = InputForm::kAsIs;
  int64_t parts = 1;  // so many groups of images, one after the other
};

// A ResNet's first layer: 7 x 7 of stride 2 over the three channels of an image.
bool IsStem(const ConvProblem& problem);

// The first is the most natural one; all give the same result but for rounding. Engines without
// tensor cores (f32) rearrange their maps in the workspace, and the ones that do without are some
// fifty times slower: where the maps have more than `most_bytes`, the images are taken in parts.
std::vector<ConvVariant> VariantsOf(const ConvProblem& problem, size_t most_bytes = kMaxWorkspace);

// The plan of a variant's convolution with what the variant adds.
std::unique_ptr<ConvPlan> Complete(const ConvVariant& variant, const ConvProblem& whole,
                                   std::unique_ptr<ConvPlan> plan, cudaStream_t stream);

}  // namespace xp::graph::cuda
