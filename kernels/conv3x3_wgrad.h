// The weight gradient of a 3 x 3 convolution of stride 1 and padding 1 over fp32 maps, with
// products in tf32 on tensor cores and sums in fp32. cuDNN's takes twice as long over few channels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace xp::kernels {

// x [n, h, w, c], dy [n, h, w, k]; 64 divides c and k.
struct Conv3x3Shape {
  int n, h, w, c, k;
};

struct Conv3x3WgradPlan {
  Conv3x3Shape shape{};
  int parts = 0;  // that the pixels are split into; 0: the device can't run it
};

// The split depends on the shape and the number of multiprocessors only.
Conv3x3WgradPlan PlanConv3x3Wgrad(const Conv3x3Shape& shape, int multiprocessors);
size_t Conv3x3WgradScratch(const Conv3x3WgradPlan& plan);

// dw [k, 3, 3, c]. Tensors are 16-byte aligned.
void Conv3x3Wgrad(const Conv3x3WgradPlan& plan, const float* x, const float* dy, float* dw,
                  void* scratch, cudaStream_t stream);

}  // namespace xp::kernels
