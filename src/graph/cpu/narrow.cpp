#include "src/graph/cpu/narrow.h"

#include <cstring>

#include "src/graph/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace xp::graph::cpu {
namespace {

void WidenPlain(const uint16_t* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = Bf16ToFloat(x[i]);
}

void NarrowPlain(const float* x, int64_t n, uint16_t* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = FloatToBf16(x[i]);
}

void StreamPlain(const float* x, int64_t n, float* y) {
  if (n > 0) std::memcpy(y, x, static_cast<size_t>(n) * sizeof(float));
}

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 sees its own headers' undefined vectors: https://gcc.gnu.org/PR105593
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define XP_AVX512 __attribute__((target("avx512f,avx512vl,avx512bw")))
#define XP_AVX2 __attribute__((target("avx2")))

XP_AVX512 void WidenAvx512(const uint16_t* x, int64_t n, float* y) {
  const int64_t whole = n / 16 * 16;
  for (int64_t i = 0; i < whole; i += 16) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    _mm512_storeu_si512(y + i, _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  WidenPlain(x + whole, n - whole, y + whole);
}

// As FloatToBf16. Not the processor's own conversion, which takes denormals for zero.
XP_AVX512 void NarrowAvx512(const float* x, int64_t n, uint16_t* y) {
  const __m512i half = _mm512_set1_epi32(0x7fff), one = _mm512_set1_epi32(1);
  const __m512i quiet = _mm512_set1_epi32(0x40);
  const int64_t whole = n / 16 * 16;
  for (int64_t i = 0; i < whole; i += 16) {
    const __m512i bits = _mm512_loadu_si512(x + i);
    const __m512 value = _mm512_castsi512_ps(bits);
    const __m512i top = _mm512_srli_epi32(bits, 16);
    const __m512i up = _mm512_add_epi32(half, _mm512_and_si512(top, one));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, up), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, top, quiet);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), _mm512_cvtepi32_epi16(rounded));
  }
  NarrowPlain(x + whole, n - whole, y + whole);
}

XP_AVX512 void StreamAvx512(const float* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i < n && reinterpret_cast<uintptr_t>(y + i) % 64 != 0; ++i) y[i] = x[i];
  for (; i + 16 <= n; i += 16) _mm512_stream_ps(y + i, _mm512_loadu_ps(x + i));
  for (; i < n; ++i) y[i] = x[i];
  _mm_sfence();
}

XP_AVX2 void WidenAvx2(const uint16_t* x, int64_t n, float* y) {
  const int64_t whole = n / 8 * 8;
  for (int64_t i = 0; i < whole; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                        _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  WidenPlain(x + whole, n - whole, y + whole);
}

XP_AVX2 void StreamAvx2(const float* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i < n && reinterpret_cast<uintptr_t>(y + i) % 32 != 0; ++i) y[i] = x[i];
  for (; i + 8 <= n; i += 8) _mm256_stream_ps(y + i, _mm256_loadu_ps(x + i));
  for (; i < n; ++i) y[i] = x[i];
  _mm_sfence();
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

struct Functions {
  void (*widen)(const uint16_t*, int64_t, float*) = WidenPlain;
  void (*narrow)(const float*, int64_t, uint16_t*) = NarrowPlain;
  void (*stream)(const float*, int64_t, float*) = StreamPlain;
};

const Functions& Best() {
  static const Functions functions = [] {
    Functions f;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
      f = {WidenAvx512, NarrowAvx512, StreamAvx512};
    } else if (__builtin_cpu_supports("avx2")) {
      f = {WidenAvx2, NarrowPlain, StreamAvx2};
    }
#endif
    return f;
  }();
  return functions;
}

}  // namespace

void Widen(DType from, const uint16_t* x, int64_t n, float* y) {
  if (from == DType::kBF16) return Best().widen(x, n, y);
  for (int64_t i = 0; i < n; ++i) y[i] = HalfToFloat(x[i]);
}

void Narrow(DType to, const float* x, int64_t n, uint16_t* y) {
  if (to == DType::kBF16) return Best().narrow(x, n, y);
  for (int64_t i = 0; i < n; ++i) y[i] = FloatToHalf(x[i]);
}

void StreamOut(const float* x, int64_t n, float* y) { Best().stream(x, n, y); }

}  // namespace xp::graph::cpu
