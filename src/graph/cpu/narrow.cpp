#include "src/graph/cpu/narrow.h"

#include <cstring>

#include "src/graph/cpu/parallel.h"
#include "src/graph/half.h"

namespace xp::graph::cpu {
namespace {

XP_SIMD_CLONES void WidenBf16(const uint16_t* __restrict x, int64_t n, uint32_t* __restrict y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<uint32_t>(x[i]) << 16;
}

// As FloatToBf16, without a branch.
XP_SIMD_CLONES void NarrowBf16(const uint32_t* __restrict x, int64_t n, uint16_t* __restrict y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = x[i];
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x40u;
    y[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

// Floats as bit patterns, in pieces, without reading one type through another.
constexpr int64_t kPiece = 1024;

}  // namespace

void Widen(DType from, const uint16_t* x, int64_t n, float* y) {
  if (from == DType::kF16) {
    for (int64_t i = 0; i < n; ++i) y[i] = HalfToFloat(x[i]);
    return;
  }
  uint32_t bits[kPiece];
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t count = n - i < kPiece ? n - i : kPiece;
    WidenBf16(x + i, count, bits);
    std::memcpy(y + i, bits, static_cast<size_t>(count) * sizeof(float));
  }
}

void Narrow(DType to, const float* x, int64_t n, uint16_t* y) {
  if (to == DType::kF16) {
    for (int64_t i = 0; i < n; ++i) y[i] = FloatToHalf(x[i]);
    return;
  }
  uint32_t bits[kPiece];
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t count = n - i < kPiece ? n - i : kPiece;
    std::memcpy(bits, x + i, static_cast<size_t>(count) * sizeof(float));
    NarrowBf16(bits, count, y + i);
  }
}

}  // namespace xp::graph::cpu
