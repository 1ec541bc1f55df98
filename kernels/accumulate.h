// What else happens around an update: gradients summed over steps, the averaged model, the loss
// scale.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/element_type.h"
#include "kernels/update_chunk.h"

namespace xp::kernels {

// accumulated = *first ? w * g : accumulated + w * g, w being *weight, or 1 where that is null.
// gradients.accumulated must be null.
void Accumulate(const Gradients& gradients, float* accumulated, const int32_t* first,
                const float* weight, const UpdateChunk* chunks, int count, ElementType compute,
                cudaStream_t stream);

// ema = (1 - *momentum) * ema + *momentum * param
void Ema(const float* param, float* ema, const float* momentum, int64_t n, cudaStream_t stream);

// Halves the scale when *factor is 0 (never below 2^-24: its inverse must stay finite), doubles it
// after `interval` good steps, up to max_scale. As torch.amp.GradScaler.
void UpdateLossScale(const float* factor, const float* scale, const float* good_steps,
                     float* scale_after, float* good_steps_after, int interval, float max_scale,
                     cudaStream_t stream);

}  // namespace xp::kernels
