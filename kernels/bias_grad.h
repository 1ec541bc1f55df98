// The gradient of a bias: the sum of dy over all but its last dimension.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/element_type.h"

namespace xp::kernels {

// Bytes of scratch that BiasGrad needs for a shape.
size_t BiasGradScratch(int64_t rows, int64_t channels);

// db f32 [channels] = sum of dy [rows, channels] over rows. The rows are split into a number of
// parts that depends on the shape only; parts are added in order: same bits every time.
void BiasGrad(const void* dy, float* db, void* scratch, int64_t rows, int64_t channels,
              ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
