#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace xp::kernels {

// words[i] = PatternWord(first + i, round).
void FillPattern(uint64_t* words, size_t count, uint64_t first, int round, cudaStream_t stream);
// *mismatches (device memory) += words that aren't what FillPattern wrote.
void CountMismatches(const uint64_t* words, size_t count, uint64_t first, int round,
                     unsigned long long* mismatches, cudaStream_t stream);

}  // namespace xp::kernels
