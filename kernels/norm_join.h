// Normalisations with known statistics whose results are added, the residual and the ReLU after it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/element_type.h"

namespace xp::kernels {

struct NormBranch {
  const void* x = nullptr;  // [rows, channels]
  const float *scale = nullptr, *bias = nullptr, *mean = nullptr, *invstd = nullptr;
};

struct NormJoinArgs {
  NormBranch a, b;       // b.x may be null
  const void* residual;  // or null
  const void* gate;      // [images, channels], of the first branch; or null
  int pixels;            // rows an image
  void* y;
  uint8_t* mask;  // or null
  bool relu;
};

// y = relu?(gate * norm(a) + norm(b) + residual), rounded once. Moves 2 to 4 times the elements.
void NormJoin(const NormJoinArgs& args, int64_t rows, int channels, ElementType type,
              cudaStream_t stream);

}  // namespace xp::kernels
