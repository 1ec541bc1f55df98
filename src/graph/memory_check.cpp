#include "exp/graph/memory_check.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "exp/base/error.h"
#include "kernels/memory_pattern.h"

namespace xp::kernels {

void FillPatternHost(uint64_t* words, size_t count, uint64_t first, int round) {
  for (size_t i = 0; i < count; ++i) words[i] = PatternWord(first + i, round);
}

uint64_t CountMismatchesHost(const uint64_t* words, size_t count, uint64_t first, int round) {
  uint64_t bad = 0;
  for (size_t i = 0; i < count; ++i) bad += words[i] != PatternWord(first + i, round) ? 1 : 0;
  return bad;
}

}  // namespace xp::kernels

namespace xp::graph {

MemoryCheck CheckHostMemory(uint64_t bytes, int rounds) {
  auto start = std::chrono::steady_clock::now();
  MemoryCheck result{.rounds = rounds};
  size_t count = static_cast<size_t>(bytes / 8);
  std::unique_ptr<uint64_t[]> words(new (std::nothrow) uint64_t[count]);
  if (!words) throw JobError({.what = "memory to test can't be had", .where = "memory"});
  for (int round = 0; round < rounds; ++round) {
    kernels::FillPatternHost(words.get(), count, 0, round);
    // The compiler must not know what the memory holds.
    asm volatile("" : : "r"(words.get()) : "memory");
    result.bad_words += kernels::CountMismatchesHost(words.get(), count, 0, round);
  }
  result.bytes = count * 8;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

#ifndef EXP_WITH_CUDA
MemoryCheck CheckCudaMemory(int, uint64_t, int) {
  throw UsageError({.what = "this exp was built without the CUDA backend", .where = "cuda"});
}
#endif

}  // namespace xp::graph
