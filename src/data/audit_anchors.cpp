// Coverage of boxes by anchors.
#include <algorithm>
#include <cmath>

#include "exp/data/audit.h"

namespace xp::data {
namespace {

double Iou(const std::array<double, 4>& a, const std::array<double, 4>& b) {
  double w = std::min(a[2], b[2]) - std::max(a[0], b[0]),
         h = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  if (w <= 0 || h <= 0) return 0;
  double i = w * h;
  return i / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - i);
}

}  // namespace

double BestAnchorIou(const std::array<double, 4>& box, const AnchorSettings& anchors) {
  double best = 0, cx = (box[0] + box[2]) / 2, cy = (box[1] + box[3]) / 2;
  for (int stride : anchors.strides) {
    // The overlap falls with the distance of the centres: one of the four grid points around is
    // best.
    for (int corner = 0; corner < 4; ++corner) {
      double x = (std::floor(cx / stride) + (corner & 1)) * stride;
      double y = (std::floor(cy / stride) + (corner >> 1)) * stride;
      for (double scale : anchors.scales) {
        for (double ratio : anchors.ratios) {
          double w = scale * stride / std::sqrt(ratio) / 2,
                 h = scale * stride * std::sqrt(ratio) / 2;
          best = std::max(best, Iou(box, {x - w, y - h, x + w, y + h}));
        }
      }
    }
  }
  return best;
}

}  // namespace xp::data
