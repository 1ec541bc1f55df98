// The first layer of a ResNet, 7 x 7 of stride 2 and padding 3 from the three channels of an image
// to 64, and its weight gradient, straight from the image: cuDNN needs it in another form first
// (conv_input.h), which costs as much again. Sums in fp32, on tensor cores: bf16, fp16, and fp32
// with products in tf32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/element_type.h"

namespace xp::kernels {

inline constexpr int kStemChannels = 64;

// x [n, h, w, 3], y [n, p, q, 64] with p = (h - 1) / 2 + 1 and q likewise.
struct StemShape {
  int n, h, w, p, q;
};

// Whether the device at hand has the tensor cores (compute capability 8.0 and newer) and this
// program the code for them. Elsewhere the kernels do nothing.
bool StemConvRuns();

// y = relu?(x * w + bias), w [64, 7, 7, 3]; bias, in fp32, may be null. Tensors are 16-byte
// aligned.
void StemConv(const void* x, const void* w, const float* bias, void* y, const StemShape& shape,
              bool relu, int multiprocessors, ElementType type, cudaStream_t stream);

// dw [64, 7, 7, 3] from x and dy [n, p, q, 64]. How the sums are split depends on the shape and the
// number of multiprocessors only.
size_t StemConvGradScratch(const StemShape& shape, int multiprocessors);
void StemConvGrad(const void* x, const void* dy, void* dw, const StemShape& shape,
                  int multiprocessors, void* scratch, ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
