// Parallel loops of the CPU kernels. The split is static and each index is handled by one thread,
// so results don't depend on how many threads there are as long as indices don't share sums.
#pragma once

#include <omp.h>

#include <cstdint>

// Compiles a leaf function several times and picks the widest vectors that the machine has when the
// program starts. Only for code whose results don't depend on the width: element-wise work, and
// sums whose lanes are independent (one per channel). -ffp-contract=off keeps FMA out of all
// clones, so their bits agree. Sanitizers can't run before the loader has resolved the clones.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define XP_SIMD_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define XP_SIMD_CLONES
#endif

namespace xp::graph::cpu {

// body(i) for i in [0, count).
template <typename Body>
void ParallelFor(int threads, int64_t count, const Body& body) {
  if (threads <= 1 || count <= 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < count; ++i) body(i);
}

// body(begin, end) over [0, count) in pieces of `grain` elements (the last is shorter).
template <typename Body>
void ParallelRanges(int threads, int64_t count, int64_t grain, const Body& body) {
  ParallelFor(threads, (count + grain - 1) / grain, [&](int64_t i) {
    const int64_t begin = i * grain;
    body(begin, begin + grain < count ? begin + grain : count);
  });
}

// Elements a piece of an element-wise loop: fits the first-level cache with two operands.
inline constexpr int64_t kGrain = 8192;

}  // namespace xp::graph::cpu
