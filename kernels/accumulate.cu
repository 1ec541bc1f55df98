#include "kernels/accumulate.h"

#include "kernels/update_chunk.cuh"

namespace xp::kernels {
namespace {

template <typename T>
__global__ void __launch_bounds__(kUpdateThreads)
    AccumulateKernel(const Gradients gradients, float* accumulated, const int32_t* first,
                     const float* weight, const UpdateChunk* chunks) {
  const UpdateChunk chunk = chunks[blockIdx.x];
  const bool anew = *first != 0;
  const float scale = weight != nullptr ? *weight : 1.0f;
  ForChunk(chunk, [&](auto vector, int64_t at) {
    constexpr int V = decltype(vector)::value;
    float g[V];
    ReadGradient<T>(gradients, chunk, at, g);
#pragma unroll
    for (int k = 0; k < V; ++k) g[k] *= scale;
    if (!anew) {
      float sum[V];
      ReadVector<V>(accumulated + at, sum);
#pragma unroll
      for (int k = 0; k < V; ++k) g[k] = sum[k] + g[k];
    }
    WriteVector<V>(accumulated + at, g);
  });
}

__global__ void __launch_bounds__(kUpdateThreads)
    EmaKernel(const float* param, float* ema, const float* momentum, int64_t n) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kUpdateChunk;
  const UpdateChunk chunk{.begin = begin,
                          .count = static_cast<int32_t>(min(n - begin, int64_t{kUpdateChunk}))};
  const float take = *momentum;
  ForChunk(chunk, [&](auto vector, int64_t at) {
    constexpr int V = decltype(vector)::value;
    float p[V], e[V];
    ReadVector<V>(param + at, p);
    ReadVector<V>(ema + at, e);
#pragma unroll
    for (int k = 0; k < V; ++k) e[k] = (1 - take) * e[k] + take * p[k];
    WriteVector<V>(ema + at, e);
  });
}

__global__ void UpdateLossScaleKernel(const float* factor, const float* scale,
                                      const float* good_steps, float* scale_after,
                                      float* good_steps_after, int interval, float max_scale) {
  constexpr float kSmallest = 1.0f / 16777216;
  float value = *scale, good = *good_steps + 1;
  if (*factor == 0) {
    value = fmaxf(value * 0.5f, kSmallest);
    good = 0;
  } else if (good >= static_cast<float>(interval)) {
    value = fminf(value * 2, max_scale);
    good = 0;
  }
  *scale_after = value;
  *good_steps_after = good;
}

}  // namespace

void Accumulate(const Gradients& gradients, float* accumulated, const int32_t* first,
                const float* weight, const UpdateChunk* chunks, int count, ElementType compute,
                cudaStream_t stream) {
  if (count == 0) return;
  Dispatch(compute, [&](auto zero) {
    AccumulateKernel<decltype(zero)><<<static_cast<unsigned>(count), kUpdateThreads, 0, stream>>>(
        gradients, accumulated, first, weight, chunks);
  });
}

void Ema(const float* param, float* ema, const float* momentum, int64_t n, cudaStream_t stream) {
  if (n == 0) return;
  EmaKernel<<<CeilDiv(n, kUpdateChunk), kUpdateThreads, 0, stream>>>(param, ema, momentum, n);
}

void UpdateLossScale(const float* factor, const float* scale, const float* good_steps,
                     float* scale_after, float* good_steps_after, int interval, float max_scale,
                     cudaStream_t stream) {
  UpdateLossScaleKernel<<<1, 1, 0, stream>>>(factor, scale, good_steps, scale_after,
                                             good_steps_after, interval, max_scale);
}

}  // namespace xp::kernels
