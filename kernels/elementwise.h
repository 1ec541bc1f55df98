// Sums, ReLU, sigmoid and conversions: one pass over memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/element_type.h"

namespace xp::kernels {

inline constexpr int kMaxAddInputs = 12;

// y = relu?(x[0] + .. + x[count - 1]), summed in that order in fp32. 1 <= count <= kMaxAddInputs;
// y may be one of the inputs. Moves (count + 1) * n elements.
void Add(const void* const* x, int count, void* y, int64_t n, bool relu, ElementType type,
         cudaStream_t stream);

void Relu(const void* x, void* y, int64_t n, ElementType type, cudaStream_t stream);
// dx = y > 0 ? dy : 0
void ReluGrad(const void* dy, const void* y, void* dx, int64_t n, ElementType type,
              cudaStream_t stream);
void Sigmoid(const void* x, void* y, int64_t n, ElementType type, cudaStream_t stream);
// dx = dy * y * (1 - y)
void SigmoidGrad(const void* dy, const void* y, void* dx, int64_t n, ElementType type,
                 cudaStream_t stream);
// Rounds to nearest even.
void Cast(const void* x, ElementType from, void* y, ElementType to, int64_t n, cudaStream_t stream);

}  // namespace xp::kernels
