// Nearest upsampling with addition (FPN's top-down path), subsampling by two, and their gradients.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/element_type.h"
#include "kernels/map_shape.h"

namespace xp::kernels {

// y = lateral + top at row floor(row * top.h / out.h), likewise columns. Reads lateral and top
// once.
void UpsampleAdd(const void* top, const void* lateral, void* y, const MapShape& top_shape,
                 const MapShape& out, ElementType type, cudaStream_t stream);
// dtop: sums over the pixels of dy that read each of its pixels.
void UpsampleGrad(const void* dy, void* dtop, const MapShape& top_shape, const MapShape& out,
                  ElementType type, cudaStream_t stream);

// y = x at even rows and columns.
void Subsample(const void* x, void* y, const MapShape& in, const MapShape& out, ElementType type,
               cudaStream_t stream);
void SubsampleGrad(const void* dy, void* dx, const MapShape& in, const MapShape& out,
                   ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
