// Probabilities of a row of logits by one warp, with the bits that the CPU gets: the portable
// exponential, and the sum in the order of the columns.
#pragma once

#include "kernels/elements.cuh"
#include "kernels/portable_math.h"

namespace xp::kernels {

struct RowSoftmax {
  float most, sum;
};

// exps: the warp's shared memory, `columns` floats; filled with exp(x - most). All 32 lanes call.
template <typename T>
__device__ RowSoftmax ExponentialsOfRow(const T* x, int columns, float* exps) {
  int lane = threadIdx.x % 32;
  float most = -INFINITY;
  for (int k = lane; k < columns; k += 32) most = fmaxf(most, ToFloat(x[k]));
  for (int offset = 16; offset > 0; offset /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, offset));
  }
  __syncwarp();
  for (int k = lane; k < columns; k += 32) exps[k] = PortableExp(ToFloat(x[k]) - most);
  __syncwarp();
  float sum = 0;
  if (lane == 0) {
#pragma unroll 8
    for (int k = 0; k < columns; ++k) sum += exps[k];
  }
  return {most, __shfl_sync(0xffffffffu, sum, 0)};
}

}  // namespace xp::kernels
