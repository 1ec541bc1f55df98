#include "kernels/memory_pattern.h"

#include "kernels/memory_pattern_cuda.h"

namespace xp::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 4096;

__global__ void FillKernel(uint64_t* words, size_t count, uint64_t first, int round) {
  size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    words[i] = PatternWord(first + i, round);
  }
}

__global__ void CountKernel(const uint64_t* words, size_t count, uint64_t first, int round,
                            unsigned long long* mismatches) {
  size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  unsigned long long bad = 0;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    if (words[i] != PatternWord(first + i, round)) ++bad;
  }
  if (bad > 0) atomicAdd(mismatches, bad);
}

int Blocks(size_t count) {
  size_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<int>(blocks < 1 ? 1 : blocks > kMaxBlocks ? kMaxBlocks : blocks);
}

}  // namespace

void FillPattern(uint64_t* words, size_t count, uint64_t first, int round, cudaStream_t stream) {
  FillKernel<<<Blocks(count), kThreads, 0, stream>>>(words, count, first, round);
}

void CountMismatches(const uint64_t* words, size_t count, uint64_t first, int round,
                     unsigned long long* mismatches, cudaStream_t stream) {
  CountKernel<<<Blocks(count), kThreads, 0, stream>>>(words, count, first, round, mismatches);
}

}  // namespace xp::kernels
