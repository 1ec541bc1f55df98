// What follows a convolution or a product: y = relu?(y + bias), in place.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/element_type.h"

namespace xp::kernels {

// y [rows, channels] of `type`; bias f32 [channels] or null. Arithmetic in fp32.
void BiasAct(void* y, const float* bias, int64_t rows, int64_t channels, bool relu,
             ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
