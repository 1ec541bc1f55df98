// Max pooling and its gradient.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/element_type.h"
#include "kernels/map_shape.h"

namespace xp::kernels {

struct PoolWindow {
  int kernel = 2, stride = 2, pad = 0;
};

// argmax u8 (or null), y's shape: ky * kernel + kx of the first maximum. Moves x, y and argmax
// once.
void MaxPool(const void* x, void* y, uint8_t* argmax, const MapShape& in, const MapShape& out,
             const PoolWindow& window, ElementType type, cudaStream_t stream);
void MaxPoolGrad(const void* dy, const uint8_t* argmax, void* dx, const MapShape& in,
                 const MapShape& out, const PoolWindow& window, ElementType type,
                 cudaStream_t stream);

}  // namespace xp::kernels
