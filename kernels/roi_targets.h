// kRoiTargets (include/exp/graph/ops.h) on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/boxes.h"
#include "kernels/matching.h"

namespace xp::kernels {

struct RoiTargetsProblem {
  MatchParams matcher;
  CoderParams coder;
  int images, proposal_capacity, truth_capacity, samples, max_positives;
  int background;
  bool add_ground_truth;
};

size_t RoiTargetsScratch(const RoiTargetsProblem& p);

struct RoiTargetsInputs {
  const Box* proposals;            // [N, P]
  const int32_t* proposal_counts;  // [N]
  const Box* gt;                   // [N, G]
  const int32_t* gt_labels;        // [N, G]
  const int32_t* gt_counts;        // [N]
  const uint32_t* step_key;        // [4]
};

// -> rois [N, R], labels [N, R], targets [N, R], counts [N, 2]
void RoiTargets(const RoiTargetsProblem& p, const RoiTargetsInputs& in, Box* rois, int32_t* labels,
                BoxDeltas* targets, int32_t* counts, void* scratch, cudaStream_t stream);

}  // namespace xp::kernels
