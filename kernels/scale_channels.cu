#include "kernels/scale_channels.h"

#include "kernels/image_sums.cuh"
#include "kernels/row_grid.cuh"

namespace xp::kernels {
namespace {

constexpr int kPixels = 4;  // a thread, forward

// Block dim3(lanes, pixels), grid dim3(blocks of pixels, tiles of channels, images).
template <typename T, int V>
__global__ void __launch_bounds__(kApplyThreads)
    ScaleKernel(const T* x, const T* s, T* y, int pixels, int channels) {
  const int channel = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * V;
  if (channel >= channels) return;
  const int64_t image = blockIdx.z;
  const int first =
      static_cast<int>(blockIdx.x * blockDim.y) * kPixels + static_cast<int>(threadIdx.y);
  const int64_t base = image * pixels * channels + channel;
  Raw<V, T> raw[kPixels];
#pragma unroll
  for (int u = 0; u < kPixels; ++u) {
    const int64_t p = first + u * static_cast<int>(blockDim.y);
    if (p < pixels) raw[u] = LoadRaw<V>(x + base + p * channels);
  }
  float scale[V];
  ReadVector<V>(s + image * channels + channel, scale);
#pragma unroll
  for (int u = 0; u < kPixels; ++u) {
    const int64_t p = first + u * static_cast<int>(blockDim.y);
    if (p >= pixels) continue;
    float v[V];
    Unpack(raw[u], v);
#pragma unroll
    for (int c = 0; c < V; ++c) v[c] *= scale[c];
    WriteVector<V>(y + base + p * channels, v);
  }
}

template <typename T, int V>
__global__ void __launch_bounds__(kColumnThreads)
    ScaleGradKernel(const T* __restrict__ dy, const T* __restrict__ x, const T* __restrict__ s,
                    T* __restrict__ dx, T* __restrict__ ds, int pixels, int channels) {
  __shared__ float scratch[V * kColumnThreads];
  const int channel = ThreadChannel<V>();
  const int64_t image = blockIdx.y, base = image * pixels * channels + channel;
  float sum[V] = {};
  if (channel < channels) {
    float scale[V];
    ReadVector<V>(s + image * channels + channel, scale);
#pragma unroll 2
    for (int p = static_cast<int>(threadIdx.y); p < pixels; p += static_cast<int>(blockDim.y)) {
      const int64_t at = base + static_cast<int64_t>(p) * channels;
      float g[V], v[V];
      const Raw<V, T> raw_g = LoadRaw<V>(dy + at), raw_x = LoadRaw<V>(x + at);
      Unpack(raw_g, g);
      Unpack(raw_x, v);
#pragma unroll
      for (int c = 0; c < V; ++c) {
        sum[c] += g[c] * v[c];
        g[c] *= scale[c];
      }
      WriteVector<V>(dx + at, g);
    }
  }
  AddRowLanes(sum, scratch);
  if (threadIdx.y == 0 && channel < channels) WriteVector<V>(ds + image * channels + channel, sum);
}

}  // namespace

void ScaleChannels(const void* x, const void* s, void* y, int images, int pixels, int channels,
                   ElementType type, cudaStream_t stream) {
  if (images == 0 || pixels == 0 || channels == 0) return;
  DispatchVector(type, channels, [&](auto zero, auto vector) {
    using T = decltype(zero);
    constexpr int V = decltype(vector)::value;
    RowGrid plan = PlanRows(pixels, channels / V, kPixels);
    plan.grid.z = static_cast<unsigned>(images);
    ScaleKernel<T, V><<<plan.grid, plan.block, 0, stream>>>(
        static_cast<const T*>(x), static_cast<const T*>(s), static_cast<T*>(y), pixels, channels);
  });
}

void ScaleChannelsGrad(const void* dy, const void* x, const void* s, void* dx, void* ds, int images,
                       int pixels, int channels, ElementType type, cudaStream_t stream) {
  if (images == 0 || channels == 0) return;
  const ImageSums plan = PlanImageSums(images, pixels, channels);
  DispatchVector(type, channels, [&](auto zero, auto vector) {
    using T = decltype(zero);
    ScaleGradKernel<T, decltype(vector)::value><<<plan.grid, plan.block, 0, stream>>>(
        static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<const T*>(s),
        static_cast<T*>(dx), static_cast<T*>(ds), pixels, channels);
  });
}

}  // namespace xp::kernels
