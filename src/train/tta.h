// Boxes of one image seen in several ways, put together.
#pragma once

#include "exp/train/coco_eval.h"

namespace xp::train {

// Suppression a class at `iou` over everything, best score first (ties: the earlier), then the best
// `max_per_image`.
Detections MergeDetections(const Detections& all, double iou, int max_per_image);

}  // namespace xp::train
