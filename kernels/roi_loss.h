// kRoiLoss (include/exp/graph/ops.h) on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/boxes.h"
#include "kernels/element_type.h"

namespace xp::kernels {

struct RoiLossProblem {
  int images, rois;  // N, R
  int columns;       // K + 1
  int background;
  float beta;
  bool class_agnostic;
  ElementType type;
};

size_t RoiLossScratch(const RoiLossProblem& p);

struct RoiLossInputs {
  const void* logits;        // [N * R, columns]
  const void* deltas;        // [N * R, columns * 4 or 4]
  const int32_t* labels;     // [N, R]
  const BoxDeltas* targets;  // [N, R]
  const int32_t* counts;     // [N, 2]
  const float* loss_scale;   // [1] or null
};

// -> losses [2], dlogits, ddeltas, every element written
void RoiLoss(const RoiLossProblem& p, const RoiLossInputs& in, float* losses, void* dlogits,
             void* ddeltas, void* scratch, cudaStream_t stream);

}  // namespace xp::kernels
