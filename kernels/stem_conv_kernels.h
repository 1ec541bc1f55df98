// What stem_conv.cu and stem_conv_grad.cu launch for fp32 feature maps: products in tf32. The
// arguments are those of stem_conv.h.
#pragma once

#include "kernels/stem_conv.h"

namespace xp::kernels {

void StemConvTf32(const float* x, const float* w, const float* bias, float* y,
                  const StemShape& shape, bool relu, int multiprocessors, cudaStream_t stream);
void StemConvGradTf32(const float* x, const float* dy, float* dw, const StemShape& shape,
                      int multiprocessors, float4* partial, cudaStream_t stream);

}  // namespace xp::kernels
