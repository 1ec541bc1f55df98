// Filling memory with a pattern that depends on the address, and counting the words that differ.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exp/base/philox.h"  // XP_HOST_DEVICE

namespace xp::kernels {

// What word `index` holds in a round: the finalizer of splitmix64 (Steele et al., "Fast splittable
// pseudorandom number generators") of the index, and its complement in odd rounds, so that every
// bit is written as 0 and as 1.
XP_HOST_DEVICE inline uint64_t PatternWord(uint64_t index, int round) {
  uint64_t z = index + 0x9e3779b97f4a7c15ull * static_cast<uint64_t>(round / 2 + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return round % 2 == 0 ? z : ~z;
}

// The CPU's versions.
void FillPatternHost(uint64_t* words, size_t count, uint64_t first, int round);
uint64_t CountMismatchesHost(const uint64_t* words, size_t count, uint64_t first, int round);

}  // namespace xp::kernels
