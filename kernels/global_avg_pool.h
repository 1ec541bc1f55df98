// The mean over an image's pixels, and its gradient.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/element_type.h"

namespace xp::kernels {

// x [images, pixels, channels] -> y [images, channels]. Reads x once.
void GlobalAvgPool(const void* x, void* y, int images, int pixels, int channels, ElementType type,
                   cudaStream_t stream);
// dx = dy / pixels, everywhere.
void GlobalAvgPoolGrad(const void* dy, void* dx, int images, int pixels, int channels,
                       ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
