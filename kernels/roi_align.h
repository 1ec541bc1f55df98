// kRoiAlign and kRoiAlignGrad (include/exp/graph/ops.h) on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/element_type.h"
#include "kernels/roi_geometry.h"

namespace xp::kernels {

struct RoiAlignProblem {
  RoiParams params;  // output at most kMaxRoiOutput
  int images, rois, channels;
  int count_stride;  // counts are [N] (1) or [N, 2] (2)
  ElementType type;
};

inline constexpr int kMaxRoiOutput = 32;

struct RoiMaps {
  const void* map[8];
};
struct RoiMapGrads {
  void* map[8];
};

size_t RoiAlignScratch(const RoiAlignProblem& p);  // of either

// maps [N, H, W, C], rois [N, R], counts -> y [N * R, S, S, C]
void RoiAlign(const RoiAlignProblem& p, const RoiMaps& maps, const Box* rois, const int32_t* counts,
              void* y, void* scratch, cudaStream_t stream);

// dy [N * R, S, S, C] -> the maps' gradients, every element written
void RoiAlignGrad(const RoiAlignProblem& p, const void* dy, const Box* rois, const int32_t* counts,
                  const RoiMapGrads& grads, void* scratch, cudaStream_t stream);

}  // namespace xp::kernels
