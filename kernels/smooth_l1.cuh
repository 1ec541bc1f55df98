// The regression loss of all detectors here (ops.h, RpnLossAttrs), and sums over a block.
#pragma once

namespace xp::kernels {

struct SmoothL1 {
  float value, slope;
};

__device__ inline SmoothL1 SmoothL1Of(float d, float beta) {
  float size = fabsf(d);
  if (size < beta) return {0.5f * d * d / beta, d / beta};
  return {size - 0.5f * beta, d > 0 ? 1.0f : (d < 0 ? -1.0f : d)};
}

// Sum over the block in a fixed order; thread 0 gets it. Threads is the block's size.
template <int Threads>
__device__ float BlockSumInOrder(float value) {
  __shared__ float warps[Threads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int w = 0; threadIdx.x == 0 && w < Threads / 32; ++w) sum += warps[w];
  return sum;
}

}  // namespace xp::kernels
