// COCO's bounding-box evaluation: the twelve numbers of pycocotools, per-class AP and the curves.
// Source: Microsoft COCO, PythonAPI/pycocotools/cocoeval.py (BSD); equal to it within 1e-9.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "exp/data/coco.h"

namespace xp::train {

// Detections of any number of images, one entry per detection in each vector.
struct Detections {
  std::vector<int64_t> image_ids;
  std::vector<double> boxes;  // [count, 4] x, y, w, h, pixels of the original image
  std::vector<double> scores;
  std::vector<int64_t> category_ids;  // COCO ids, not labels

  size_t size() const { return scores.size(); }
  void Add(int64_t image_id, const std::array<double, 4>& xywh, double score, int64_t category_id) {
    image_ids.push_back(image_id);
    boxes.insert(boxes.end(), xywh.begin(), xywh.end());
    scores.push_back(score);
    category_ids.push_back(category_id);
  }
};

// -1 where no ground truth supports a value, as in pycocotools.
struct ClassResult {
  int64_t category_id = 0;
  std::string name;
  double ap = -1, ap50 = -1, ap75 = -1;
  double ap_small = -1, ap_medium = -1, ap_large = -1;
  double ar100 = -1;
};

struct CocoResult {
  // In pycocotools' order: AP, AP50, AP75, AP small, medium, large, AR 1, 10, 100, AR small,
  // medium, large.
  std::array<double, 12> stats{};
  std::vector<ClassResult> classes;  // in the data set's label order
  // [10 IoU thresholds .50:.05:.95, 101 recall points, classes], area "all", 100 detections; label
  // order.
  std::vector<double> precision;

  double map() const { return stats[0]; }
  double map50() const { return stats[1]; }
  double map75() const { return stats[2]; }
};

// Names of `stats` as the events and the store use them: "bbox_mAP", "bbox_mAP_50", ...
extern const std::array<const char*, 12> kCocoStatNames;

// Evaluates over all images and categories of the data set. Detections of an image or category that
// it doesn't have are a UsageError (of an image) or left out (of a category), as pycocotools does;
// a box or score that isn't finite is a UsageError. The result doesn't depend on `threads` (0: all
// cores).
CocoResult EvaluateBbox(const data::CocoDataset& dataset, const Detections& detections,
                        int threads = 0);

}  // namespace xp::train
