// kDetections (include/exp/graph/ops.h) on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/boxes.h"
#include "kernels/element_type.h"

namespace xp::kernels {

struct DetectionsProblem {
  CoderParams coder;
  int images, rois, classes, background, max_detections;
  float min_score, min_size, nms_iou;
  bool class_agnostic;
  ElementType type;
};

size_t DetectionsScratch(const DetectionsProblem& p);

struct DetectionsInputs {
  const void* logits;     // [N * R, K + 1]
  const void* deltas;     // [N * R, (K + 1) * 4 or 4]
  const Box* rois;        // [N, R]
  const int32_t* counts;  // [N]
  const int32_t* sizes;   // [N, 2]
};

// -> boxes [N, D], scores [N, D], labels [N, D], out_counts [N]
void Detections(const DetectionsProblem& p, const DetectionsInputs& in, Box* boxes, float* scores,
                int32_t* labels, int32_t* out_counts, void* scratch, cudaStream_t stream);

}  // namespace xp::kernels
