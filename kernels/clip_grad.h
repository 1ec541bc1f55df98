// The norm of all trained gradients and the factor they are multiplied by before use.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/element_type.h"
#include "kernels/update_chunk.h"

namespace xp::kernels {

struct ClipGradArgs {
  Gradients gradients;
  const float* loss_scale;  // [1] or null
  float *factor, *norm;     // [1]
  float max_norm;           // 0: no clipping
  float inverse_count;
};

inline size_t ClipGradScratch(int chunks) { return static_cast<size_t>(chunks) * sizeof(double); }
// `counter`: u32, 0 at first; it is 0 again afterwards. Reads the gradients once.
void ClipGrad(const ClipGradArgs& args, const UpdateChunk* chunks, int count, void* scratch,
              unsigned* counter, ElementType compute, cudaStream_t stream);

}  // namespace xp::kernels
