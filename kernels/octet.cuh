// Eight neighbouring elements at a time: the unit in which kernels read and write feature maps
// whose channel count is a multiple of eight. 16 bytes for bf16 and fp16, 32 for fp32.
#pragma once

#include <type_traits>

#include "kernels/elements.cuh"

namespace xp::kernels {

// As loaded: unpacked only when used, so that a thread can have many in flight with few registers.
template <typename T>
struct Octet {
  uint4 q[sizeof(T) / 2];
};

template <typename T>
__device__ inline Octet<T> LoadOctet(const T* p) {
  Octet<T> o;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / 2); ++i) {
    o.q[i] = reinterpret_cast<const uint4*>(p)[i];
  }
  return o;
}

__device__ inline void Unpack(const Octet<float>& o, float (&v)[8]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    v[4 * i] = __uint_as_float(o.q[i].x);
    v[4 * i + 1] = __uint_as_float(o.q[i].y);
    v[4 * i + 2] = __uint_as_float(o.q[i].z);
    v[4 * i + 3] = __uint_as_float(o.q[i].w);
  }
}
__device__ inline void Unpack(const Octet<__nv_bfloat16>& o, float (&v)[8]) {
  const uint32_t w[4] = {o.q[0].x, o.q[0].y, o.q[0].z, o.q[0].w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // a bf16 is the upper half of the same fp32
    v[2 * i] = __uint_as_float(w[i] << 16);
    v[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
  }
}
__device__ inline void Unpack(const Octet<__half>& o, float (&v)[8]) {
  const uint32_t w[4] = {o.q[0].x, o.q[0].y, o.q[0].z, o.q[0].w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 f = __half22float2(*reinterpret_cast<const __half2*>(&w[i]));
    v[2 * i] = f.x;
    v[2 * i + 1] = f.y;
  }
}

__device__ inline Octet<float> Pack(const float (&v)[8], float) {
  Octet<float> o;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    o.q[i] = make_uint4(__float_as_uint(v[4 * i]), __float_as_uint(v[4 * i + 1]),
                        __float_as_uint(v[4 * i + 2]), __float_as_uint(v[4 * i + 3]));
  }
  return o;
}
__device__ inline Octet<__nv_bfloat16> Pack(const float (&v)[8], __nv_bfloat16) {
  uint32_t w[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __nv_bfloat162 b = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
    w[i] = *reinterpret_cast<const uint32_t*>(&b);
  }
  return {{make_uint4(w[0], w[1], w[2], w[3])}};
}
__device__ inline Octet<__half> Pack(const float (&v)[8], __half) {
  uint32_t w[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __half2 h = __floats2half2_rn(v[2 * i], v[2 * i + 1]);
    w[i] = *reinterpret_cast<const uint32_t*>(&h);
  }
  return {{make_uint4(w[0], w[1], w[2], w[3])}};
}

template <typename T>
__device__ inline void StoreOctet(T* p, const Octet<T>& o) {
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / 2); ++i) {
    reinterpret_cast<uint4*>(p)[i] = o.q[i];
  }
}
template <typename T>
__device__ inline void StoreOctet(T* p, const float (&v)[8]) {
  StoreOctet(p, Pack(v, T{}));
}

template <typename T>
__device__ inline void ReadOctet(const T* p, float (&v)[8]) {
  Unpack(LoadOctet(p), v);
}

// V = 8: an octet; V = 4: 16 bytes of fp32; V = 1: a single element, for channel counts that
// eight doesn't divide.
template <int V, typename T>
using Raw = std::conditional_t<V == 8, Octet<T>, std::conditional_t<V == 4, float4, T>>;

template <int V, typename T>
__device__ inline Raw<V, T> LoadRaw(const T* p) {
  if constexpr (V == 8) {
    return LoadOctet(p);
  } else if constexpr (V == 4) {
    static_assert(std::is_same_v<T, float>);
    return *reinterpret_cast<const float4*>(p);
  } else {
    return *p;
  }
}
__device__ inline void Unpack(const float4& x, float (&v)[4]) {
  v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
}
__device__ inline void Unpack(float x, float (&v)[1]) { v[0] = x; }
__device__ inline void Unpack(__nv_bfloat16 x, float (&v)[1]) { v[0] = ToFloat(x); }
__device__ inline void Unpack(__half x, float (&v)[1]) { v[0] = ToFloat(x); }

template <int V, typename T>
__device__ inline void ReadVector(const T* p, float (&v)[V]) {
  Unpack(LoadRaw<V>(p), v);
}
template <int V, typename T>
__device__ inline void WriteVector(T* p, const float (&v)[V]) {
  if constexpr (V == 8) {
    StoreOctet(p, v);
  } else if constexpr (V == 4) {
    *reinterpret_cast<float4*>(p) = make_float4(v[0], v[1], v[2], v[3]);
  } else {
    *p = FromFloat<T>(v[0]);
  }
}

// Calls body(T{}, integral_constant V) with V as above.
template <typename Body>
void DispatchVector(ElementType type, int64_t channels, Body&& body) {
  Dispatch(type, [&](auto zero) {
    if (channels % 8 == 0) {
      body(zero, std::integral_constant<int, 8>{});
    } else {
      body(zero, std::integral_constant<int, 1>{});
    }
  });
}

// As DispatchVector, but with 16 bytes of fp32 (V = 4) instead of 32: a thread that keeps sums of
// each of its channels has half the registers' worth, and each access of a warp is of whole lines.
template <typename Body>
void DispatchSixteenBytes(ElementType type, int64_t channels, Body&& body) {
  Dispatch(type, [&](auto zero) {
    if (channels % 8 == 0) {
      body(zero, std::integral_constant<int, kVector<decltype(zero)>>{});
    } else {
      body(zero, std::integral_constant<int, 1>{});
    }
  });
}

inline unsigned CeilDiv(int64_t a, int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

}  // namespace xp::kernels
