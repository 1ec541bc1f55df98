// kSsdTargets, kSsdLoss and kSsdDetections (include/exp/graph/ops.h) on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/anchors.h"
#include "kernels/element_type.h"
#include "kernels/matching.h"
#include "kernels/rpn_loss.h"

namespace xp::kernels {

struct SsdProblem {
  AnchorGrid grid;           // without base anchors: counts the default boxes
  const Box* default_boxes;  // [B] in device memory
  CoderParams coder;
  MatchParams matcher;
  int images, truth_capacity, columns;  // columns: K + 1
  float negative_ratio, beta;
  float min_score, nms_iou;
  int candidates, max_detections;
  ElementType type;
};

size_t SsdTargetsScratch(const SsdProblem& p);
// gt [N, G], gt_counts [N] -> matched [N, B], counts [N]
void SsdTargets(const SsdProblem& p, const Box* gt, const int32_t* gt_counts, int32_t* matched,
                int32_t* counts, void* scratch, cudaStream_t stream);

struct SsdLossInputs {
  RpnMaps maps;  // cls, box
  const int32_t* matched;
  const int32_t* counts;
  const Box* gt;
  const int32_t* gt_labels;
  const float* loss_scale;  // [1] or null
};
size_t SsdLossScratch(const SsdProblem& p);
// -> losses [2], gradients of all maps, every element written
void SsdLoss(const SsdProblem& p, const SsdLossInputs& in, float* losses, const RpnMapGrads& grads,
             void* scratch, cudaStream_t stream);

size_t SsdDetectionsScratch(const SsdProblem& p);
// sizes [N, 2] -> boxes [N, D], scores [N, D], labels [N, D], counts [N]
void SsdDetections(const SsdProblem& p, const RpnMaps& maps, const int32_t* sizes, Box* boxes,
                   float* scores, int32_t* labels, int32_t* counts, void* scratch,
                   cudaStream_t stream);

}  // namespace xp::kernels
