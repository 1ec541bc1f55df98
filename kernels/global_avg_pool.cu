#include "kernels/global_avg_pool.h"

#include "kernels/image_sums.cuh"
#include "kernels/row_grid.cuh"

namespace xp::kernels {
namespace {

template <typename T, int V>
__global__ void __launch_bounds__(kColumnThreads)
    MeanOfPixels(const T* x, T* y, int pixels, int channels) {
  __shared__ float scratch[V * kColumnThreads];
  const int channel = ThreadChannel<V>();
  const int64_t image = blockIdx.y;
  float sum[V] = {};
  if (channel < channels) {
    const T* from = x + image * pixels * channels + channel;
#pragma unroll 4
    for (int p = static_cast<int>(threadIdx.y); p < pixels; p += static_cast<int>(blockDim.y)) {
      float v[V];
      ReadVector<V>(from + static_cast<int64_t>(p) * channels, v);
#pragma unroll
      for (int c = 0; c < V; ++c) sum[c] += v[c];
    }
  }
  AddRowLanes(sum, scratch);
  if (threadIdx.y != 0 || channel >= channels) return;
#pragma unroll
  for (int c = 0; c < V; ++c) sum[c] /= static_cast<float>(pixels);
  WriteVector<V>(y + image * channels + channel, sum);
}

// Block dim3(lanes, pixels), grid dim3(blocks of pixels, tiles of channels, images).
template <typename T, int V>
__global__ void __launch_bounds__(kApplyThreads)
    SpreadMean(const T* dy, T* dx, int pixels, int channels) {
  constexpr int kPixels = 4;
  const int channel = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * V;
  if (channel >= channels) return;
  const int64_t image = blockIdx.z;
  float v[V];
  ReadVector<V>(dy + image * channels + channel, v);
#pragma unroll
  for (int c = 0; c < V; ++c) v[c] /= static_cast<float>(pixels);
  const int first =
      static_cast<int>(blockIdx.x * blockDim.y) * kPixels + static_cast<int>(threadIdx.y);
#pragma unroll
  for (int u = 0; u < kPixels; ++u) {
    const int p = first + u * static_cast<int>(blockDim.y);
    if (p < pixels) WriteVector<V>(dx + (image * pixels + p) * channels + channel, v);
  }
}

}  // namespace

void GlobalAvgPool(const void* x, void* y, int images, int pixels, int channels, ElementType type,
                   cudaStream_t stream) {
  if (images == 0 || channels == 0) return;
  const ImageSums plan = PlanImageSums(images, pixels, channels);
  DispatchVector(type, channels, [&](auto zero, auto vector) {
    using T = decltype(zero);
    MeanOfPixels<T, decltype(vector)::value><<<plan.grid, plan.block, 0, stream>>>(
        static_cast<const T*>(x), static_cast<T*>(y), pixels, channels);
  });
}

void GlobalAvgPoolGrad(const void* dy, void* dx, int images, int pixels, int channels,
                       ElementType type, cudaStream_t stream) {
  if (images == 0 || pixels == 0 || channels == 0) return;
  DispatchVector(type, channels, [&](auto zero, auto vector) {
    using T = decltype(zero);
    constexpr int V = decltype(vector)::value;
    RowGrid plan = PlanRows(pixels, channels / V, 4);
    plan.grid.z = static_cast<unsigned>(images);
    SpreadMean<T, V><<<plan.grid, plan.block, 0, stream>>>(static_cast<const T*>(dy),
                                                           static_cast<T*>(dx), pixels, channels);
  });
}

}  // namespace xp::kernels
