// The first half of COCO's evaluation: which detection of an image matches which box.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "exp/data/coco.h"

namespace xp::train {

constexpr int kThresholds = 10;      // IoU .50:.05:.95
constexpr int kAreas = 4;            // all, small, medium, large
constexpr int kMaxDetections = 100;  // of one image and category

// np.linspace(.5, .95, 10), bit for bit: a box that overlaps by exactly a threshold counts.
std::array<double, kThresholds> IouThresholds();

// Area ranges in pixels, both ends included: all, small, medium, large.
extern const double kAreaRange[kAreas][2];

struct Detection {
  double x, y, w, h, score;
};

// What one image says about one category.
struct ImageMatches {
  std::vector<double> scores;  // of the best 100 detections, falling
  // Bit t of each detection: matched to a box, and not counted, at threshold t.
  std::array<std::vector<uint16_t>, kAreas> matched, ignored;
  std::array<int, kAreas> boxes{};  // that count
};

// `boxes`: of one image and category in file order; `detections`: likewise, in the order given.
ImageMatches MatchImage(const std::vector<const data::CocoAnnotation*>& boxes,
                        std::vector<Detection> detections);

}  // namespace xp::train
