#include "src/train/coco_eval_match.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace xp::train {
namespace {

// Of a detection and a box; of a crowd, the share of the detection inside it. maskApi.c, bbIou.
double Overlap(const Detection& d, const data::CocoAnnotation& g) {
  double w = std::fmin(d.w + d.x, g.w + g.x) - std::fmax(d.x, g.x);
  if (w <= 0) return 0;
  double h = std::fmin(d.h + d.y, g.h + g.y) - std::fmax(d.y, g.y);
  if (h <= 0) return 0;
  double i = w * h, area = d.w * d.h;
  double u = g.crowd ? area : area + g.w * g.h - i;
  return i / u;
}

bool Outside(double area, int range) {
  return area < kAreaRange[range][0] || area > kAreaRange[range][1];
}

// Matches for one area range. `overlaps` is [detections, boxes] in the order of `boxes`.
class Matcher {
 public:
  Matcher(const std::vector<const data::CocoAnnotation*>& boxes,
          const std::vector<Detection>& detections, const std::vector<double>& overlaps)
      : boxes_(boxes),
        detections_(detections),
        overlaps_(overlaps),
        order_(boxes.size()),
        ignore_(boxes.size()) {}

  void Run(int range, ImageMatches* out) {
    // Boxes that count first, else in file order.
    std::iota(order_.begin(), order_.end(), 0);
    std::vector<char> ignore(boxes_.size());
    for (size_t g = 0; g < boxes_.size(); ++g)
      ignore[g] = boxes_[g]->crowd || Outside(boxes_[g]->area, range);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return ignore[a] < ignore[b]; });
    for (size_t g = 0; g < boxes_.size(); ++g) ignore_[g] = ignore[order_[g]];
    out->boxes[range] = static_cast<int>(std::count(ignore.begin(), ignore.end(), 0));
    out->matched[range].assign(detections_.size(), 0);
    out->ignored[range].assign(detections_.size(), 0);
    static const std::array<double, kThresholds> thresholds = IouThresholds();
    for (int t = 0; t < kThresholds; ++t) Threshold(range, t, thresholds[t], out);
  }

 private:
  void Threshold(int range, int t, double threshold, ImageMatches* out) {
    taken_.assign(boxes_.size(), 0);
    const uint16_t bit = static_cast<uint16_t>(1u << t);
    for (size_t d = 0; d < detections_.size(); ++d) {
      int best = Best(d, threshold);
      if (best >= 0) {
        taken_[best] = 1;
        out->matched[range][d] |= bit;
        if (ignore_[best]) out->ignored[range][d] |= bit;
      } else if (Outside(detections_[d].w * detections_[d].h, range)) {
        out->ignored[range][d] |= bit;
      }
    }
  }

  // The box that detection d takes: the last of those that overlap most, counted ones first; -1:
  // none.
  int Best(size_t d, double threshold) const {
    double best_overlap = std::min(threshold, 1 - 1e-10);
    int best = -1;
    for (size_t g = 0; g < order_.size(); ++g) {
      if (taken_[g] && !boxes_[order_[g]]->crowd) continue;
      if (best >= 0 && !ignore_[best] && ignore_[g]) break;
      double overlap = overlaps_[d * boxes_.size() + order_[g]];
      if (overlap < best_overlap) continue;
      best_overlap = overlap;
      best = static_cast<int>(g);
    }
    return best;
  }

  const std::vector<const data::CocoAnnotation*>& boxes_;
  const std::vector<Detection>& detections_;
  const std::vector<double>& overlaps_;
  std::vector<size_t> order_;
  std::vector<char> ignore_, taken_;  // by position in order_
};

}  // namespace

const double kAreaRange[kAreas][2] = {{0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}};

std::array<double, kThresholds> IouThresholds() {
  std::array<double, kThresholds> thresholds;
  const double step = (0.95 - 0.5) / (kThresholds - 1);
  for (int t = 0; t < kThresholds; ++t) thresholds[t] = t * step + 0.5;
  thresholds[kThresholds - 1] = 0.95;
  return thresholds;
}

ImageMatches MatchImage(const std::vector<const data::CocoAnnotation*>& boxes,
                        std::vector<Detection> detections) {
  ImageMatches out;
  std::stable_sort(detections.begin(), detections.end(),
                   [](const Detection& a, const Detection& b) { return a.score > b.score; });
  if (detections.size() > kMaxDetections) detections.resize(kMaxDetections);
  for (const Detection& d : detections) out.scores.push_back(d.score);
  std::vector<double> overlaps(detections.size() * boxes.size());
  for (size_t d = 0; d < detections.size(); ++d) {
    for (size_t g = 0; g < boxes.size(); ++g)
      overlaps[d * boxes.size() + g] = Overlap(detections[d], *boxes[g]);
  }
  Matcher matcher(boxes, detections, overlaps);
  for (int range = 0; range < kAreas; ++range) matcher.Run(range, &out);
  return out;
}

}  // namespace xp::train
