// Elementary functions that give the same bits on the host and on the device.
//
// Which boxes match, which are kept and in which order must not depend on the backend, and libm's
// and CUDA's exp and log differ in the last place. These use IEEE add, multiply, divide and square
// root alone, which both compute alike as long as no multiply-add is contracted: the host is
// compiled with -ffp-contract=off, a .cu file that includes this header with --fmad=false.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "exp/base/philox.h"  // XP_HOST_DEVICE

namespace xp::kernels {

XP_HOST_DEVICE inline uint32_t FloatBits(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}

XP_HOST_DEVICE inline float BitsFloat(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
#endif
}

// An order-preserving map to unsigned integers: the larger the score, the larger the key; NaN is
// the lowest of all (0), and -0 counts as +0 so that equal scores have equal keys.
XP_HOST_DEVICE inline uint32_t ScoreKey(float score) {
  if (score != score) return 0;
  uint32_t bits = FloatBits(score == 0 ? 0.0f : score);
  return (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
}

// The score that a key was made from.
XP_HOST_DEVICE inline float KeyScore(uint32_t key) {
  if (key == 0) return BitsFloat(0x7fc00000u);
  return BitsFloat((key & 0x80000000u) ? key & 0x7fffffffu : ~key);
}

// 2^n for n in [-126, 127].
XP_HOST_DEVICE inline float PowerOfTwo(int n) {
  return BitsFloat(static_cast<uint32_t>(n + 127) << 23);
}

// exp, within 1 ulp; results below the smallest normal number become 0. Cephes expf.
XP_HOST_DEVICE inline float PortableExp(float x) {
  if (x != x) return x;
  if (x > 88.72283f) return BitsFloat(0x7f800000u);
  if (x < -87.33654f) return 0;
  float n = floorf(x * 1.44269504088896341f + 0.5f);
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  float y = p * (r * r) + r + 1.0f;
  int whole = static_cast<int>(n);  // -126 .. 128: two factors, since 2^128 isn't a float
  int half = whole / 2;
  return y * PowerOfTwo(half) * PowerOfTwo(whole - half);
}

// Natural logarithm, within 1 ulp; log(0) = -inf, of a negative number NaN. Cephes logf.
XP_HOST_DEVICE inline float PortableLog(float x) {
  if (!(x > 0)) return x == 0 ? BitsFloat(0xff800000u) : BitsFloat(0x7fc00000u);
  if (FloatBits(x) == 0x7f800000u) return x;
  int exponent = 0;
  if (x < 1.17549435e-38f) {  // subnormal
    x *= 8388608.0f;
    exponent = -23;
  }
  uint32_t bits = FloatBits(x);
  exponent += static_cast<int>(bits >> 23) - 126;
  float m = BitsFloat((bits & 0x007fffffu) | 0x3f000000u);  // [0.5, 1)
  if (m < 0.707106781186547524f) {
    exponent -= 1;
    m = m + m - 1.0f;
  } else {
    m = m - 1.0f;
  }
  float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float e = static_cast<float>(exponent);
  float y = p * m * z;
  y = y + e * -2.12194440e-4f;
  y = y - 0.5f * z;
  return m + y + e * 0.693359375f;
}

// Base-2 logarithm rounded from double, for x a positive normal number or 0 (-inf).
XP_HOST_DEVICE inline float PortableLog2(float x) {
  if (!(x > 0)) return BitsFloat(0xff800000u);
  uint32_t bits = FloatBits(x);
  int exponent = static_cast<int>(bits >> 23) - 127;
  double m = BitsFloat((bits & 0x007fffffu) | 0x3f800000u);  // [1, 2)
  if (m > 1.4142135623730951) {
    m *= 0.5;
    exponent += 1;
  }
  double s = (m - 1.0) / (m + 1.0);  // ln m = 2 atanh(s), |s| < 0.172
  double q = s * s;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * q + 1.0 / k;
  return static_cast<float>(exponent + 2.0 * s * sum * 1.4426950408889634);
}

XP_HOST_DEVICE inline float PortableSigmoid(float x) {
  if (x >= 0) return 1.0f / (1.0f + PortableExp(-x));
  float e = PortableExp(x);
  return e / (1.0f + e);
}

}  // namespace xp::kernels
