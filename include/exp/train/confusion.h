// What a detector takes for what.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exp/data/coco.h"
#include "exp/train/coco_eval.h"

namespace xp::train {

// Rows are the truth, columns what was detected; the last of both is background. Of an image's
// detections with at least `min_score`, pairs with the boxes are made by falling IoU (ties: higher
// score, then the earlier detection, then the earlier box) down to `min_iou`, each used once. A box
// without partner counts in the background column, a detection without one in the background row,
// unless a crowd covers at least half of it.
struct Confusion {
  std::vector<std::string> classes;  // in label order
  std::vector<int64_t> counts;       // [classes + 1, classes + 1]
  int64_t At(size_t truth, size_t found) const {
    return counts[truth * (classes.size() + 1) + found];
  }
};

Confusion ConfusionOf(const data::CocoDataset& dataset, const Detections& detections,
                      double min_score = 0.3, double min_iou = 0.5);

}  // namespace xp::train
