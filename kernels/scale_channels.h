// A factor an image and channel (squeeze-and-excitation), and its gradient.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/element_type.h"

namespace xp::kernels {

// y = x * s; x [images, pixels, channels], s [images, channels].
void ScaleChannels(const void* x, const void* s, void* y, int images, int pixels, int channels,
                   ElementType type, cudaStream_t stream);
// dx = dy * s; ds = sum of dy * x over the image's pixels. One pass: reads dy and x, writes dx.
void ScaleChannelsGrad(const void* dy, const void* x, const void* s, void* dx, void* ds, int images,
                       int pixels, int channels, ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
