// How a block walks over its chunk: each thread has the octets threadIdx.x, threadIdx.x + kThreads;
// the elements of a last, incomplete octet are done by one thread each.
#pragma once

#include "kernels/octet.cuh"
#include "kernels/update_chunk.h"

namespace xp::kernels {

inline constexpr int kUpdateThreads = 256;
inline constexpr int kUpdateOctets = kUpdateChunk / (kUpdateThreads * 8);

// Calls body(integral_constant V, element of the flat buffers) for what is this thread's.
template <typename Body>
__device__ inline void ForChunk(const UpdateChunk& chunk, Body&& body) {
  const int octets = chunk.count / 8;
#pragma unroll
  for (int u = 0; u < kUpdateOctets; ++u) {
    const int i = static_cast<int>(threadIdx.x) + u * kUpdateThreads;
    if (i < octets) body(std::integral_constant<int, 8>{}, chunk.begin + i * 8);
  }
  const int rest = octets * 8 + static_cast<int>(threadIdx.x);
  if (rest < chunk.count) body(std::integral_constant<int, 1>{}, chunk.begin + rest);
}

// T: the compute type.
template <typename T, int V>
__device__ inline void ReadGradient(const Gradients& from, const UpdateChunk& chunk, int64_t at,
                                    float (&g)[V]) {
  if (from.accumulated != nullptr) {
    ReadVector<V>(from.accumulated + at, g);
  } else if (chunk.compute_grad) {
    ReadVector<V>(static_cast<const T*>(from.compute) + at, g);
  } else {
    ReadVector<V>(from.grad + chunk.grad_begin + (at - chunk.begin), g);
  }
}

// As the rules use it: unscaled, clipped by value (0: not clipped).
template <int V>
__device__ inline void Unscale(float (&g)[V], float factor, float max_value) {
#pragma unroll
  for (int k = 0; k < V; ++k) {
    g[k] *= factor;
    if (max_value > 0) g[k] = fminf(fmaxf(g[k], -max_value), max_value);
  }
}

// Sum of all threads' values, in a fixed order, in thread 0.
__device__ inline double BlockSum(double v) {
  __shared__ double warps[kUpdateThreads / 32];
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) v += __shfl_xor_sync(0xffffffffu, v, lane);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < kUpdateThreads / 32; ++w) v += warps[w];
  }
  return v;
}

}  // namespace xp::kernels
