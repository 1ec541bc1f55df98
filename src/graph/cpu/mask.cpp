#include "src/graph/cpu/mask.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace xp::graph::cpu {
namespace {

void PackPlain(const float* y, int64_t n, uint8_t* mask) {
  for (int64_t i = 0; i < n; i += 8) {
    unsigned bits = 0;
    const int64_t end = std::min<int64_t>(8, n - i);
    for (int64_t k = 0; k < end; ++k) bits |= (y[i + k] > 0.0f ? 1u : 0u) << k;
    mask[i / 8] = static_cast<uint8_t>(bits);
  }
}

void ApplyPlain(const float* x, const uint8_t* mask, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ((mask[i / 8] >> (i % 8)) & 1) != 0 ? x[i] : 0.0f;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void PackAvx512(const float* y, int64_t n, uint8_t* mask) {
  const int64_t whole = n / 16 * 16;
  const __m512 zero = _mm512_setzero_ps();
  for (int64_t i = 0; i < whole; i += 16) {
    const auto bits =
        static_cast<uint16_t>(_mm512_cmp_ps_mask(_mm512_loadu_ps(y + i), zero, _CMP_GT_OQ));
    __builtin_memcpy(mask + i / 8, &bits, sizeof(bits));
  }
  PackPlain(y + whole, n - whole, mask + whole / 8);
}

__attribute__((target("avx512f"))) void ApplyAvx512(const float* x, const uint8_t* mask, int64_t n,
                                                    float* out) {
  const int64_t whole = n / 16 * 16;
  for (int64_t i = 0; i < whole; i += 16) {
    uint16_t bits;
    __builtin_memcpy(&bits, mask + i / 8, sizeof(bits));
    _mm512_storeu_ps(out + i, _mm512_maskz_loadu_ps(bits, x + i));
  }
  ApplyPlain(x + whole, mask + whole / 8, n - whole, out + whole);
}

__attribute__((target("avx2"))) void PackAvx2(const float* y, int64_t n, uint8_t* mask) {
  const int64_t whole = n / 8 * 8;
  const __m256 zero = _mm256_setzero_ps();
  for (int64_t i = 0; i < whole; i += 8) {
    mask[i / 8] = static_cast<uint8_t>(
        _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(y + i), zero, _CMP_GT_OQ)));
  }
  PackPlain(y + whole, n - whole, mask + whole / 8);
}

__attribute__((target("avx2"))) void ApplyAvx2(const float* x, const uint8_t* mask, int64_t n,
                                               float* out) {
  const int64_t whole = n / 8 * 8;
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  for (int64_t i = 0; i < whole; i += 8) {
    const __m256i chosen = _mm256_and_si256(_mm256_set1_epi32(mask[i / 8]), bit);
    const __m256 keep = _mm256_castsi256_ps(_mm256_cmpeq_epi32(chosen, bit));
    _mm256_storeu_ps(out + i, _mm256_and_ps(keep, _mm256_loadu_ps(x + i)));
  }
  ApplyPlain(x + whole, mask + whole / 8, n - whole, out + whole);
}
#endif

using PackFunction = void (*)(const float*, int64_t, uint8_t*);
using ApplyFunction = void (*)(const float*, const uint8_t*, int64_t, float*);

PackFunction ChoosePack() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return PackAvx512;
  if (__builtin_cpu_supports("avx2")) return PackAvx2;
#endif
  return PackPlain;
}

ApplyFunction ChooseApply() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return ApplyAvx512;
  if (__builtin_cpu_supports("avx2")) return ApplyAvx2;
#endif
  return ApplyPlain;
}

}  // namespace

void PackMask(const float* y, int64_t n, uint8_t* mask) {
  static const PackFunction function = ChoosePack();
  function(y, n, mask);
}

void ApplyMask(const float* x, const uint8_t* mask, int64_t n, float* out) {
  static const ApplyFunction function = ChooseApply();
  function(x, mask, n, out);
}

}  // namespace xp::graph::cpu
