// Decoded images to the network's input.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "kernels/element_type.h"

namespace xp::kernels {

// y [images, height, width, 3] = (u8 / 255 - mean) / std inside each image's size (sizes i32
// [images, 2]: height, width), 0 outside. Moves 1 byte and one element a value.
void ImageNormalize(const uint8_t* x, const int32_t* sizes, void* y, int images, int height,
                    int width, const std::array<float, 3>& mean, const std::array<float, 3>& std,
                    ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
