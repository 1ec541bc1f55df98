// Images have three channels, which the fast convolution engines can't read: these bring input and
// weights of a first layer into a shape that they can.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/element_type.h"

namespace xp::kernels {

// x [rows, from] -> out [rows, to]: the first min(from, to) channels, zeros beyond. Pads an input
// or weights, or takes the padding off a gradient.
void ResizeChannels(const void* x, void* out, int64_t rows, int from, int to, ElementType type,
                    cudaStream_t stream);

// A 7 x 7 convolution of stride 2 and padding 3 over [n, h, w, 3] equals a 4 x 4 convolution of
// stride 1 without padding over [n, p + 3, q + 3, 16], whose channel (2 a + b) * 3 + c at row i and
// column j is x[2 (i - 2) + a][2 (j - 2) + b][c] (0 outside, and in channels 12 to 15), with
// weights w'[i][j][(2 a + b) * 3 + c] = w[2 i + a - 1][2 j + b - 1][c]. p x q is the output's size.
void SpaceToDepth(const void* x, void* out, int64_t n, int64_t h, int64_t w, int64_t p, int64_t q,
                  ElementType type, cudaStream_t stream);
// w [k, 7, 7, 3] -> [k, 4, 4, 16], and the other way for a gradient.
void SpaceToDepthWeights(const void* w, void* out, int64_t k, ElementType type,
                         cudaStream_t stream);
void DepthToSpaceWeights(const void* dw, void* out, int64_t k, ElementType type,
                         cudaStream_t stream);

// The same convolution as one of 4 x 1 and stride 1 over [n, p + 3, q, 48]: a row of eight pixels
// side by side, of two image rows. Channel 24 a + 3 t + c at row i and column j is
// x[2 (i - 2) + a][2 (j - 2) + t][c], with weights w'[i][24 a + 3 t + c] = w[2 i + a - 1][t -
// 1][c].
void SpaceToRows(const void* x, void* out, int64_t n, int64_t h, int64_t w, int64_t p, int64_t q,
                 ElementType type, cudaStream_t stream);
// w [k, 7, 7, 3] -> [k, 4, 1, 48], and the other way for a gradient.
void SpaceToRowsWeights(const void* w, void* out, int64_t k, ElementType type, cudaStream_t stream);
void RowsToSpaceWeights(const void* dw, void* out, int64_t k, ElementType type,
                        cudaStream_t stream);

}  // namespace xp::kernels
