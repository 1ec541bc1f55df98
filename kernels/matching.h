// The decision of a matcher for one anchor, given its overlaps: torchvision's Matcher
// (models/detection/_utils.py) and mmdetection's MaxIoUAssigner by options (ops.h, Matcher).
#pragma once

#include "kernels/boxes.h"

namespace xp::kernels {

inline constexpr int kBackground = -1;  // a negative
inline constexpr int kIgnored = -2;     // between the thresholds: neither

struct MatchParams {
  float positive, negative;
  bool low_quality;
  float low_quality_min;
  bool low_quality_to_best;
};

// What has been seen of an anchor's overlaps with an image's ground truth, box by box in order. An
// overlap of 0 is no match, unlike in torchvision, where a box that meets no anchor makes all of
// them positive.
struct BestMatch {
  float iou = 0;
  int gt = 0;       // the first of the best
  int forced = -1;  // the last ground truth whose best anchor this is

  XP_HOST_DEVICE void See(float overlap, int index) {
    if (overlap > iou) {
      iou = overlap;
      gt = index;
    }
  }

  // In a second round, once the largest overlap of each ground truth with any anchor is known;
  // needed only where iou > 0.
  XP_HOST_DEVICE void SeeBest(float overlap, int index, float gt_best, const MatchParams& params) {
    if (overlap > 0 && overlap == gt_best && overlap >= params.low_quality_min) forced = index;
  }

  // Index of the ground truth, kBackground or kIgnored.
  XP_HOST_DEVICE int Decide(const MatchParams& params) const {
    if (params.low_quality && forced >= 0) return params.low_quality_to_best ? forced : gt;
    if (iou > 0 && iou >= params.positive) return gt;
    return iou < params.negative || iou == 0 ? kBackground : kIgnored;
  }
};

}  // namespace xp::kernels
