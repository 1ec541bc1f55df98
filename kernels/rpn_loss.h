// kRpnLoss (include/exp/graph/ops.h) on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/anchors.h"
#include "kernels/element_type.h"

namespace xp::kernels {

struct RpnMaps {
  const void* cls[kMaxLevels];
  const void* box[kMaxLevels];
};

struct RpnMapGrads {
  void* cls[kMaxLevels];  // null: not wanted
  void* box[kMaxLevels];
};

struct RpnLossProblem {
  AnchorGrid grid;
  int images, samples;
  float beta;
  ElementType type;
};

// sampled [N, S], targets [N, S], counts [N, 2], loss_scale [1] or null -> losses [2], gradients
void RpnLoss(const RpnLossProblem& p, const RpnMaps& maps, const int32_t* sampled,
             const BoxDeltas* targets, const int32_t* counts, const float* loss_scale,
             float* losses, const RpnMapGrads& grads, cudaStream_t stream);

}  // namespace xp::kernels
