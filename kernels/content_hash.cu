#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/content_hash.h"

namespace xp::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 1024;

// The finalizer of splitmix64 (Steele et al., "Fast splittable pseudorandom number generators").
__device__ uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

__global__ void HashKernel(const uint8_t* data, size_t bytes, unsigned long long* hash) {
  uint64_t sum = 0;
  size_t words = bytes / 8;
  size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words;
       i += step) {
    uint64_t word = reinterpret_cast<const uint64_t*>(data)[i];
    sum += Mix(word ^ Mix(i + 1));
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    uint64_t tail = bytes;
    for (size_t i = words * 8; i < bytes; ++i) tail = tail * 257 + data[i];
    sum += Mix(tail);
  }
  atomicAdd(hash, static_cast<unsigned long long>(sum));
}

__device__ void Store(float* p, float v) { *p = v; }
__device__ void Store(__nv_bfloat16* p, float v) { *p = __float2bfloat16(v); }
__device__ void Store(__half* p, float v) { *p = __float2half(v); }

template <typename T>
__global__ void FillKernel(T* data, size_t elements, uint32_t seed) {
  size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += step) {
    uint64_t r = Mix(i ^ (static_cast<uint64_t>(seed) << 40));
    float sum = 0;
    for (int k = 0; k < 4; ++k) sum += static_cast<float>((r >> (16 * k)) & 0xffff) / 65536.0f;
    Store(data + i, sum - 2.0f);
  }
}

int Blocks(size_t items) {
  size_t blocks = (items + kThreads - 1) / kThreads;
  return static_cast<int>(blocks < 1 ? 1 : blocks > kMaxBlocks ? kMaxBlocks : blocks);
}

}  // namespace

bool HaveMachineCode() {
  cudaFuncAttributes attributes;
  bool have = cudaFuncGetAttributes(&attributes, HashKernel) == cudaSuccess;
  cudaGetLastError();
  return have;
}

void ContentHash(const void* data, size_t bytes, uint64_t* hash, cudaStream_t stream) {
  cudaMemsetAsync(hash, 0, sizeof(*hash), stream);
  HashKernel<<<Blocks(bytes / 8), kThreads, 0, stream>>>(
      static_cast<const uint8_t*>(data), bytes, reinterpret_cast<unsigned long long*>(hash));
}

void FillRandom(void* data, size_t elements, ElementType type, uint32_t seed, cudaStream_t stream) {
  int blocks = Blocks(elements);
  switch (type) {
    case ElementType::kF32:
      FillKernel<<<blocks, kThreads, 0, stream>>>(static_cast<float*>(data), elements, seed);
      break;
    case ElementType::kBF16:
      FillKernel<<<blocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(data), elements,
                                                  seed);
      break;
    case ElementType::kF16:
      FillKernel<<<blocks, kThreads, 0, stream>>>(static_cast<__half*>(data), elements, seed);
      break;
  }
}

}  // namespace xp::kernels
