// Reading and writing feature maps in 16-byte pieces, as fp32 in registers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/element_type.h"

namespace xp::kernels {

__device__ inline float ToFloat(float v) { return v; }
__device__ inline float ToFloat(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ inline float ToFloat(__half v) { return __half2float(v); }

template <typename T>
__device__ T FromFloat(float v);
template <>
__device__ inline float FromFloat<float>(float v) {
  return v;
}
template <>
__device__ inline __nv_bfloat16 FromFloat<__nv_bfloat16>(float v) {
  return __float2bfloat16(v);
}
template <>
__device__ inline __half FromFloat<__half>(float v) {
  return __float2half(v);
}

// How many elements of T 16 bytes hold.
template <typename T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

template <typename T>
struct alignas(16) Vector {
  T v[kVector<T>];
};

// Calls body(T{}) with the element type that `type` stands for.
template <typename Body>
void Dispatch(ElementType type, Body&& body) {
  switch (type) {
    case ElementType::kF32:
      body(float{});
      break;
    case ElementType::kBF16:
      body(__nv_bfloat16{});
      break;
    case ElementType::kF16:
      body(__half{});
      break;
  }
}

}  // namespace xp::kernels
