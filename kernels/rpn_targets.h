// kRpnTargets (include/exp/graph/ops.h) on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/anchors.h"
#include "kernels/matching.h"

namespace xp::kernels {

struct RpnTargetsProblem {
  AnchorGrid grid;  // its base anchors in device memory
  MatchParams matcher;
  CoderParams coder;
  int images, truth_capacity, samples, max_positives;
};

size_t RpnTargetsScratch(const RpnTargetsProblem& p);

// gt [N, G] boxes, gt_counts [N], step_key [4] -> sampled [N, S], targets [N, S], counts [N, 2]
void RpnTargets(const RpnTargetsProblem& p, const Box* gt, const int32_t* gt_counts,
                const uint32_t* step_key, int32_t* sampled, BoxDeltas* targets, int32_t* counts,
                void* scratch, cudaStream_t stream);

}  // namespace xp::kernels
