// What both directions of RoIAlign need of each box, worked out once: a launch of a thread a box.
#pragma once

#include <cuda_runtime.h>

#include "kernels/roi_align.h"

namespace xp::kernels {

struct RoiPlan {
  RoiGeometry geometry;  // level -1: the row isn't used
  // The pixels that it may touch, both ends included; none where first > last.
  int first_y, last_y, first_x, last_x;
};

namespace roi_plan_detail {

// Pixels between the first and the last sample, within the map. Bounds are taken in float: a box
// may lie anywhere.
__device__ inline void TouchedPixels(float start, float bin, int output, int size, int* first,
                                     int* last) {
  float from = floorf(start), to = floorf(start + bin * static_cast<float>(output)) + 1;
  *first = from > 0 ? (from < static_cast<float>(size) ? static_cast<int>(from) : size - 1) : 0;
  *last = to < static_cast<float>(size - 1) ? (to < 0 ? 0 : static_cast<int>(to)) : size - 1;
}

static __global__ void PlanRois(const __grid_constant__ RoiParams params, int rows, int rois,
                                const Box* boxes, const int32_t* counts, int count_stride,
                                RoiPlan* plans) {
  int r = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  const int32_t* c = counts + static_cast<int64_t>(r / rois) * count_stride;
  int count = count_stride == 1 ? c[0] : c[0] + c[1];
  RoiPlan plan{};
  if (r % rois >= count) {
    plan.geometry.level = -1;
  } else {
    plan.geometry = MakeRoiGeometry(boxes[r], params);
    const RoiGeometry& g = plan.geometry;
    TouchedPixels(g.start_y, g.bin_y, params.output, params.height[g.level], &plan.first_y,
                  &plan.last_y);
    TouchedPixels(g.start_x, g.bin_x, params.output, params.width[g.level], &plan.first_x,
                  &plan.last_x);
  }
  plans[r] = plan;
}

}  // namespace roi_plan_detail

inline void PlanRois(const RoiAlignProblem& p, const Box* boxes, const int32_t* counts,
                     RoiPlan* plans, cudaStream_t stream) {
  int rows = p.images * p.rois;
  constexpr int kThreads = 128;
  roi_plan_detail::
      PlanRois<<<static_cast<unsigned>((rows + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
          p.params, rows, p.rois, boxes, counts, p.count_stride, plans);
}

}  // namespace xp::kernels
