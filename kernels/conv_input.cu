#include "kernels/conv_input.h"
#include "kernels/elements.cuh"

namespace xp::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kDepth = 16;  // 2 x 2 pixels of 3 channels, and 4 of padding

unsigned Blocks(int64_t items) { return static_cast<unsigned>((items + kThreads - 1) / kThreads); }

__device__ int64_t ThreadIndex() {
  return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

template <typename T>
__global__ void ResizeChannelsKernel(const T* x, T* out, int64_t elements, int from, int to) {
  int64_t i = ThreadIndex();
  if (i >= elements) return;
  int64_t row = i / to;
  int channel = static_cast<int>(i - row * to);
  out[i] = channel < from ? x[row * from + channel] : FromFloat<T>(0.0f);
}

// A thread makes one pixel of 16 channels.
template <typename T>
__global__ void SpaceToDepthKernel(const T* x, T* out, int64_t pixels, int h, int w, int rows,
                                   int columns) {
  int64_t pixel = ThreadIndex();
  if (pixel >= pixels) return;
  int j = static_cast<int>(pixel % columns);
  int64_t rest = pixel / columns;
  int i = static_cast<int>(rest % rows);
  int64_t image = rest / rows;
  alignas(16) T values[kDepth];
#pragma unroll
  for (int k = 0; k < kDepth; ++k) values[k] = FromFloat<T>(0.0f);
#pragma unroll
  for (int a = 0; a < 2; ++a) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      int y = 2 * (i - 2) + a;
      int column = 2 * (j - 2) + b;
      if (y < 0 || y >= h || column < 0 || column >= w) continue;
      const T* source = x + ((image * h + y) * w + column) * 3;
#pragma unroll
      for (int c = 0; c < 3; ++c) values[(2 * a + b) * 3 + c] = source[c];
    }
  }
  auto* target = reinterpret_cast<Vector<T>*>(out + pixel * kDepth);
  auto* pieces = reinterpret_cast<const Vector<T>*>(values);
#pragma unroll
  for (int k = 0; k < kDepth / kVector<T>; ++k) target[k] = pieces[k];
}

constexpr int kRowChannels = 48;  // 2 rows of 8 pixels of 3 channels

// A thread makes one row of eight pixels, 24 channels.
template <typename T>
__global__ void SpaceToRowsKernel(const T* x, T* out, int64_t pieces, int h, int w, int rows,
                                  int columns) {
  const int64_t piece = ThreadIndex();
  if (piece >= pieces) return;
  const int a = static_cast<int>(piece % 2);
  const int64_t pixel = piece / 2;
  const int j = static_cast<int>(pixel % columns);
  const int64_t rest = pixel / columns;
  const int i = static_cast<int>(rest % rows);
  const int64_t image = rest / rows;
  const int y = 2 * (i - 2) + a, first = 2 * (j - 2);
  alignas(16) T values[kRowChannels / 2];
  const bool row_inside = y >= 0 && y < h;
  const T* source = x + ((image * h + (row_inside ? y : 0)) * w + first) * 3;
#pragma unroll
  for (int t = 0; t < 8; ++t) {
    const bool inside = row_inside && first + t >= 0 && first + t < w;
#pragma unroll
    for (int c = 0; c < 3; ++c) {
      values[t * 3 + c] = inside ? source[t * 3 + c] : FromFloat<T>(0.0f);
    }
  }
  auto* target = reinterpret_cast<Vector<T>*>(out + piece * (kRowChannels / 2));
  auto* parts = reinterpret_cast<const Vector<T>*>(values);
#pragma unroll
  for (int k = 0; k < kRowChannels / 2 / kVector<T>; ++k) target[k] = parts[k];
}

// Where element `index` of [k, 4, 1, 48] comes from in [k, 7, 7, 3]; -1: nowhere, it is 0.
__device__ int64_t SourceRowWeight(int64_t index) {
  const int channel = static_cast<int>(index % kRowChannels);
  const int i = static_cast<int>(index / kRowChannels % 4);
  const int64_t k = index / (kRowChannels * 4);
  const int r = 2 * i + channel / 24 - 1, s = channel % 24 / 3 - 1;
  if (r < 0 || s < 0) return -1;
  return ((k * 7 + r) * 7 + s) * 3 + channel % 3;
}

template <typename T>
__global__ void RowWeightsKernel(const T* w, T* out, int64_t elements) {
  const int64_t i = ThreadIndex();
  if (i >= elements) return;
  const int64_t source = SourceRowWeight(i);
  out[i] = source < 0 ? FromFloat<T>(0.0f) : w[source];
}

template <typename T>
__global__ void RowWeightsBackKernel(const T* dw, T* out, int64_t elements) {
  const int64_t i = ThreadIndex();
  if (i >= elements) return;
  const int64_t target = SourceRowWeight(i);
  if (target >= 0) out[target] = dw[i];
}

// Where element `index` of [k, 4, 4, 16] comes from in [k, 7, 7, 3]; -1: nowhere, it is 0.
__device__ int64_t SourceWeight(int64_t index) {
  int channel = static_cast<int>(index % kDepth);
  int j = static_cast<int>(index / kDepth % 4);
  int i = static_cast<int>(index / (kDepth * 4) % 4);
  int64_t k = index / (kDepth * 16);
  if (channel >= 12) return -1;
  int r = 2 * i + channel / 6 - 1;
  int s = 2 * j + channel / 3 % 2 - 1;
  if (r < 0 || s < 0) return -1;  // both are at most 2 * 3 + 1 - 1 = 6
  return ((k * 7 + r) * 7 + s) * 3 + channel % 3;
}

template <typename T>
__global__ void WeightsKernel(const T* w, T* out, int64_t elements) {
  int64_t i = ThreadIndex();
  if (i >= elements) return;
  int64_t source = SourceWeight(i);
  out[i] = source < 0 ? FromFloat<T>(0.0f) : w[source];
}

// The same map the other way: every weight has one place, so each is written once.
template <typename T>
__global__ void WeightsBackKernel(const T* dw, T* out, int64_t elements) {
  int64_t i = ThreadIndex();
  if (i >= elements) return;
  int64_t target = SourceWeight(i);
  if (target >= 0) out[target] = dw[i];
}

}  // namespace

void ResizeChannels(const void* x, void* out, int64_t rows, int from, int to, ElementType type,
                    cudaStream_t stream) {
  int64_t elements = rows * to;
  if (elements == 0) return;
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    ResizeChannelsKernel<T><<<Blocks(elements), kThreads, 0, stream>>>(
        static_cast<const T*>(x), static_cast<T*>(out), elements, from, to);
  });
}

void SpaceToDepth(const void* x, void* out, int64_t n, int64_t h, int64_t w, int64_t p, int64_t q,
                  ElementType type, cudaStream_t stream) {
  int64_t pixels = n * (p + 3) * (q + 3);
  if (pixels == 0) return;
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    SpaceToDepthKernel<T><<<Blocks(pixels), kThreads, 0, stream>>>(
        static_cast<const T*>(x), static_cast<T*>(out), pixels, static_cast<int>(h),
        static_cast<int>(w), static_cast<int>(p + 3), static_cast<int>(q + 3));
  });
}

void SpaceToDepthWeights(const void* w, void* out, int64_t k, ElementType type,
                         cudaStream_t stream) {
  int64_t elements = k * 16 * kDepth;
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    WeightsKernel<T><<<Blocks(elements), kThreads, 0, stream>>>(static_cast<const T*>(w),
                                                                static_cast<T*>(out), elements);
  });
}

void DepthToSpaceWeights(const void* dw, void* out, int64_t k, ElementType type,
                         cudaStream_t stream) {
  int64_t elements = k * 16 * kDepth;
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    WeightsBackKernel<T><<<Blocks(elements), kThreads, 0, stream>>>(static_cast<const T*>(dw),
                                                                    static_cast<T*>(out), elements);
  });
}

void SpaceToRows(const void* x, void* out, int64_t n, int64_t h, int64_t w, int64_t p, int64_t q,
                 ElementType type, cudaStream_t stream) {
  const int64_t pieces = n * (p + 3) * q * 2;
  if (pieces == 0) return;
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    SpaceToRowsKernel<T><<<Blocks(pieces), kThreads, 0, stream>>>(
        static_cast<const T*>(x), static_cast<T*>(out), pieces, static_cast<int>(h),
        static_cast<int>(w), static_cast<int>(p + 3), static_cast<int>(q));
  });
}

void SpaceToRowsWeights(const void* w, void* out, int64_t k, ElementType type,
                        cudaStream_t stream) {
  const int64_t elements = k * 4 * kRowChannels;
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    RowWeightsKernel<T><<<Blocks(elements), kThreads, 0, stream>>>(static_cast<const T*>(w),
                                                                   static_cast<T*>(out), elements);
  });
}

void RowsToSpaceWeights(const void* dw, void* out, int64_t k, ElementType type,
                        cudaStream_t stream) {
  const int64_t elements = k * 4 * kRowChannels;
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    RowWeightsBackKernel<T><<<Blocks(elements), kThreads, 0, stream>>>(
        static_cast<const T*>(dw), static_cast<T*>(out), elements);
  });
}

}  // namespace xp::kernels
