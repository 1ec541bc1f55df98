#include "src/train/tta.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace xp::train {
namespace {

double Iou(const double* a, const double* b) {
  double w = std::min(a[0] + a[2], b[0] + b[2]) - std::max(a[0], b[0]);
  double h = std::min(a[1] + a[3], b[1] + b[3]) - std::max(a[1], b[1]);
  double both = w > 0 && h > 0 ? w * h : 0;
  double either = a[2] * a[3] + b[2] * b[3] - both;
  return either > 0 ? both / either : 0;
}

}  // namespace

Detections MergeDetections(const Detections& all, double iou, int max_per_image) {
  std::map<int64_t, std::vector<size_t>> by_image;
  for (size_t i = 0; i < all.size(); ++i) by_image[all.image_ids[i]].push_back(i);
  Detections merged;
  for (auto& [image, rows] : by_image) {
    std::stable_sort(rows.begin(), rows.end(),
                     [&](size_t a, size_t b) { return all.scores[a] > all.scores[b]; });
    std::vector<size_t> kept;
    for (size_t row : rows) {
      if (static_cast<int>(kept.size()) == max_per_image) break;
      bool hidden = std::any_of(kept.begin(), kept.end(), [&](size_t other) {
        return all.category_ids[other] == all.category_ids[row] &&
               Iou(&all.boxes[4 * other], &all.boxes[4 * row]) > iou;
      });
      if (!hidden) kept.push_back(row);
    }
    for (size_t row : kept) {
      const double* b = &all.boxes[4 * row];
      merged.Add(image, {b[0], b[1], b[2], b[3]}, all.scores[row], all.category_ids[row]);
    }
  }
  return merged;
}

}  // namespace xp::train
