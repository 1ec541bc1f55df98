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

namespace {

constexpr size_t kPiece = size_t{4} << 20;  // words between two looks at `stop`

// All of it is written before any is read, so that an address that aliases another shows.
uint64_t Round(uint64_t* words, size_t count, int round, StopFlag stop) {
  uint64_t bad = 0;
  auto pieces = [&](auto body) {
    for (size_t at = 0; at < count; at += kPiece) {
      ThrowIfStopped(stop);
      body(words + at, std::min(kPiece, count - at), at);
    }
  };
  pieces([&](uint64_t* p, size_t n, size_t at) { kernels::FillPatternHost(p, n, at, round); });
  // The compiler must not know what the memory holds.
  asm volatile("" : : "r"(words) : "memory");
  pieces([&](uint64_t* p, size_t n, size_t at) {
    bad += kernels::CountMismatchesHost(p, n, at, round);
  });
  return bad;
}

}  // namespace

MemoryCheck CheckHostMemory(uint64_t bytes, int rounds, StopFlag stop) {
  auto start = std::chrono::steady_clock::now();
  MemoryCheck result{.rounds = rounds};
  size_t count = static_cast<size_t>(bytes / 8);
  std::unique_ptr<uint64_t[]> words(new (std::nothrow) uint64_t[count]);
  if (!words) throw JobError({.what = "memory to test can't be had", .where = "memory"});
  for (int round = 0; round < rounds; ++round) {
    result.bad_words += Round(words.get(), count, round, stop);
  }
  result.bytes = count * 8;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

#ifndef EXP_WITH_CUDA
MemoryCheck CheckCudaMemory(int, uint64_t, int, StopFlag) {
  throw UsageError({.what = "this exp was built without the CUDA backend", .where = "cuda"});
}
#endif

}  // namespace xp::graph
