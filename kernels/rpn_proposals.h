// kRpnProposals (include/exp/graph/ops.h) on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/anchors.h"
#include "kernels/element_type.h"
#include "kernels/rpn_loss.h"

namespace xp::kernels {

struct RpnProposalsProblem {
  AnchorGrid grid;
  CoderParams coder;
  int images;
  int pre_nms;             // a level
  int post_nms, capacity;  // an image; rows of the outputs
  float nms_iou, min_size, min_score;
  ElementType type;
};

size_t RpnProposalsScratch(const RpnProposalsProblem& p);

// sizes [N, 2] (h, w) -> proposals [N, P], scores [N, P], counts [N]
void RpnProposals(const RpnProposalsProblem& p, const RpnMaps& maps, const int32_t* sizes,
                  Box* proposals, float* scores, int32_t* counts, void* scratch,
                  cudaStream_t stream);

}  // namespace xp::kernels
