// Hashing and filling device memory, for finding out whether a kernel repeats bit for bit.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/element_type.h"

namespace xp::kernels {

// Does this program hold code for the current device?
bool HaveMachineCode();

// *hash (device memory) = a 64-bit hash of `bytes` bytes; each word is mixed with its position and
// the results are added modulo 2^64, so the order of the additions doesn't matter.
void ContentHash(const void* data, size_t bytes, uint64_t* hash, cudaStream_t stream);

// Roughly normal values (sum of four uniform ones, variance 1/3), a function of seed and index.
void FillRandom(void* data, size_t elements, ElementType type, uint32_t seed, cudaStream_t stream);

}  // namespace xp::kernels
