#include "kernels/bias_act.h"
#include "kernels/elements.cuh"

namespace xp::kernels {
namespace {

constexpr int kThreads = 256;

template <typename T>
__device__ float Apply(float y, const float* bias, int64_t channel, bool relu) {
  if (bias != nullptr) y += bias[channel];
  // NaN stays NaN, so that a broken step shows.
  return relu && y < 0 ? 0.0f : y;
}

// Channels are a multiple of the vector's length: one 16-byte piece a thread.
template <typename T>
__global__ void BiasActVector(Vector<T>* y, const float* bias, int64_t pieces, int64_t channels,
                              bool relu) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= pieces) return;
  Vector<T> piece = y[i];
  int64_t channel = i * kVector<T> % channels;
#pragma unroll
  for (int k = 0; k < kVector<T>; ++k) {
    piece.v[k] = FromFloat<T>(Apply<T>(ToFloat(piece.v[k]), bias, channel + k, relu));
  }
  y[i] = piece;
}

template <typename T>
__global__ void BiasActScalar(T* y, const float* bias, int64_t elements, int64_t channels,
                              bool relu) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elements) return;
  y[i] = FromFloat<T>(Apply<T>(ToFloat(y[i]), bias, i % channels, relu));
}

unsigned Blocks(int64_t items) { return static_cast<unsigned>((items + kThreads - 1) / kThreads); }

}  // namespace

void BiasAct(void* y, const float* bias, int64_t rows, int64_t channels, bool relu,
             ElementType type, cudaStream_t stream) {
  int64_t elements = rows * channels;
  if (elements == 0) return;
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    if (channels % kVector<T> == 0) {
      int64_t pieces = elements / kVector<T>;
      BiasActVector<T><<<Blocks(pieces), kThreads, 0, stream>>>(static_cast<Vector<T>*>(y), bias,
                                                                pieces, channels, relu);
    } else {
      BiasActScalar<T><<<Blocks(elements), kThreads, 0, stream>>>(static_cast<T*>(y), bias,
                                                                  elements, channels, relu);
    }
  });
}

}  // namespace xp::kernels
