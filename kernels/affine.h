// Normalisation with fixed statistics, the residual's addition and the ReLU after it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/element_type.h"

namespace xp::kernels {

struct AffineArgs {
  const void* x;         // [rows, channels]
  const void* residual;  // the same shape, or null
  const float *scale, *bias, *mean, *var;
  void* y;
  uint8_t* mask;  // or null
  float eps;
  bool relu;
};

void Affine(const AffineArgs& args, int64_t rows, int channels, ElementType type,
            cudaStream_t stream);

}  // namespace xp::kernels
