#include "exp/train/coco_eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exp/base/error.h"
#include "exp/base/parallel.h"
#include "src/train/coco_eval_match.h"

namespace xp::train {
namespace {

constexpr int kRecalls = 101;
constexpr int kLimits[3] = {1, 10, kMaxDetections};

// One category at one area range and limit of detections.
struct Curve {
  bool valid = false;  // there are boxes to find
  std::array<double, kThresholds> recall{};
  std::vector<double> precision;  // [thresholds, recalls]; only for 100 detections
};

class Evaluation {
 public:
  Evaluation(const data::CocoDataset& dataset, const Detections& detections, int threads)
      : dataset_(dataset),
        detections_(detections),
        threads_(threads),
        classes_(dataset.categories.size()) {}

  CocoResult Run() {
    SortImages();
    GroupDetections();
    matches_.resize(images_.size());
    ForEachInParallel(images_.size(), threads_, [&](size_t i) { Match(i); });
    of_class_.resize(classes_);
    for (const auto& image : matches_)
      for (const auto& [category, matches] : image) of_class_[category].push_back(&matches);
    curves_.resize(classes_ * kAreas * 3);
    ForEachInParallel(classes_ * kAreas, threads_,
                      [&](size_t i) { Accumulate(i / kAreas, static_cast<int>(i % kAreas)); });
    return Summarize();
  }

 private:
  // By image id, the order in which pycocotools joins images: it decides between equal scores.
  void SortImages() {
    images_.resize(dataset_.images.size());
    std::iota(images_.begin(), images_.end(), 0);
    std::sort(images_.begin(), images_.end(),
              [&](int a, int b) { return dataset_.images[a].id < dataset_.images[b].id; });
  }

  void GroupDetections() {
    std::unordered_map<int64_t, int> labels;
    for (size_t k = 0; k < classes_; ++k) labels[dataset_.categories[k].id] = static_cast<int>(k);
    of_image_.resize(dataset_.images.size());
    labels_.assign(detections_.size(), -1);
    for (size_t d = 0; d < detections_.size(); ++d) {
      auto image = dataset_.image_index.find(detections_.image_ids[d]);
      if (image == dataset_.image_index.end()) {
        throw UsageError(
            {.what = fmt::format("a detection names image {}, which the data set doesn't have",
                                 detections_.image_ids[d]),
             .where = dataset_.path,
             .expected = "detections of the images that are evaluated"});
      }
      const double* b = &detections_.boxes[4 * d];
      if (!std::isfinite(detections_.scores[d]) ||
          !std::all_of(b, b + 4, [](double v) { return std::isfinite(v); })) {
        throw UsageError(
            {.what = fmt::format(
                 "a detection of image {} is not finite: [{}, {}, {}, {}] with score {}",
                 detections_.image_ids[d], b[0], b[1], b[2], b[3], detections_.scores[d]),
             .where = dataset_.path,
             .expected = "finite boxes and scores"});
      }
      auto label = labels.find(detections_.category_ids[d]);
      if (label == labels.end()) continue;
      labels_[d] = label->second;
      of_image_[image->second].push_back(d);
    }
  }

  void Match(size_t position) {
    int image = images_[position];
    std::vector<std::vector<const data::CocoAnnotation*>> boxes(classes_);
    std::vector<std::vector<Detection>> found(classes_);
    for (const data::CocoAnnotation& a : dataset_.Of(image)) boxes[a.category].push_back(&a);
    for (size_t d : of_image_[image]) {
      const double* b = &detections_.boxes[4 * d];
      found[labels_[d]].push_back({b[0], b[1], b[2], b[3], detections_.scores[d]});
    }
    for (size_t k = 0; k < classes_; ++k) {
      if (boxes[k].empty() && found[k].empty()) continue;
      matches_[position].emplace_back(k, MatchImage(boxes[k], std::move(found[k])));
    }
  }

  void Accumulate(size_t category, int range) {
    for (int limit = 0; limit < 3; ++limit) {
      Curve& curve = curves_[(category * kAreas + range) * 3 + limit];
      std::vector<Scored> scored;
      int boxes = 0;
      for (const ImageMatches* m : of_class_[category]) {
        boxes += m->boxes[range];
        size_t n = std::min(m->scores.size(), static_cast<size_t>(kLimits[limit]));
        for (size_t d = 0; d < n; ++d)
          scored.push_back({m->scores[d], m->matched[range][d], m->ignored[range][d]});
      }
      if (boxes == 0) continue;
      curve.valid = true;
      std::stable_sort(scored.begin(), scored.end(),
                       [](const Scored& a, const Scored& b) { return a.score > b.score; });
      if (limit == 2) curve.precision.assign(kThresholds * kRecalls, 0);
      for (int t = 0; t < kThresholds; ++t) {
        FillCurve(scored, boxes, t, &curve);
      }
    }
  }

  struct Scored {
    double score;
    uint16_t matched, ignored;
  };

  static void FillCurve(const std::vector<Scored>& scored, int boxes, int t, Curve* curve) {
    std::vector<double> recall, precision;
    recall.reserve(scored.size());
    precision.reserve(scored.size());
    double hits = 0, misses = 0;
    for (const Scored& s : scored) {
      bool counts = !(s.ignored >> t & 1), matched = s.matched >> t & 1;
      hits += counts && matched;
      misses += counts && !matched;
      recall.push_back(hits / boxes);
      precision.push_back(hits / (misses + hits + std::numeric_limits<double>::epsilon()));
    }
    curve->recall[t] = recall.empty() ? 0 : recall.back();
    if (curve->precision.empty()) return;
    for (size_t i = precision.size(); i-- > 1;)
      precision[i - 1] = std::max(precision[i - 1], precision[i]);
    for (int r = 0; r < kRecalls; ++r) {
      // np.linspace(0, 1, 101)
      double wanted = r == kRecalls - 1 ? 1.0 : r * 0.01;
      size_t at = static_cast<size_t>(std::lower_bound(recall.begin(), recall.end(), wanted) -
                                      recall.begin());
      if (at < precision.size()) curve->precision[t * kRecalls + r] = precision[at];
    }
  }

  // Means over the categories [from, to) that have boxes; -1 when none has.
  double MeanPrecision(size_t from, size_t to, int range, int threshold) const {
    double sum = 0;
    int64_t count = 0;
    for (size_t k = from; k < to; ++k) {
      const Curve& curve = curves_[(k * kAreas + range) * 3 + 2];
      if (!curve.valid) continue;
      for (int t = threshold < 0 ? 0 : threshold; t < (threshold < 0 ? kThresholds : threshold + 1);
           ++t) {
        sum = std::accumulate(&curve.precision[t * kRecalls],
                              &curve.precision[t * kRecalls] + kRecalls, sum);
        count += kRecalls;
      }
    }
    return count == 0 ? -1 : sum / static_cast<double>(count);
  }

  double MeanRecall(size_t from, size_t to, int range, int limit) const {
    double sum = 0;
    int64_t count = 0;
    for (size_t k = from; k < to; ++k) {
      const Curve& curve = curves_[(k * kAreas + range) * 3 + limit];
      if (!curve.valid) continue;
      sum = std::accumulate(curve.recall.begin(), curve.recall.end(), sum);
      count += kThresholds;
    }
    return count == 0 ? -1 : sum / static_cast<double>(count);
  }

  CocoResult Summarize() const {
    constexpr int k50 = 0, k75 = 5, kEvery = -1;
    CocoResult result;
    size_t n = classes_;
    result.stats = {MeanPrecision(0, n, 0, kEvery), MeanPrecision(0, n, 0, k50),
                    MeanPrecision(0, n, 0, k75),    MeanPrecision(0, n, 1, kEvery),
                    MeanPrecision(0, n, 2, kEvery), MeanPrecision(0, n, 3, kEvery),
                    MeanRecall(0, n, 0, 0),         MeanRecall(0, n, 0, 1),
                    MeanRecall(0, n, 0, 2),         MeanRecall(0, n, 1, 2),
                    MeanRecall(0, n, 2, 2),         MeanRecall(0, n, 3, 2)};
    result.precision.assign(static_cast<size_t>(kThresholds) * kRecalls * n, -1);
    for (size_t k = 0; k < n; ++k) {
      result.classes.push_back({dataset_.categories[k].id, dataset_.categories[k].name,
                                MeanPrecision(k, k + 1, 0, kEvery), MeanPrecision(k, k + 1, 0, k50),
                                MeanPrecision(k, k + 1, 0, k75), MeanPrecision(k, k + 1, 1, kEvery),
                                MeanPrecision(k, k + 1, 2, kEvery),
                                MeanPrecision(k, k + 1, 3, kEvery), MeanRecall(k, k + 1, 0, 2)});
      const Curve& curve = curves_[k * kAreas * 3 + 2];
      for (size_t i = 0; i < curve.precision.size(); ++i)
        result.precision[i * n + k] = curve.precision[i];
    }
    return result;
  }

  const data::CocoDataset& dataset_;
  const Detections& detections_;
  int threads_;
  size_t classes_;
  std::vector<int> images_;                    // indices in the order of ids
  std::vector<std::vector<size_t>> of_image_;  // detections, by image index
  std::vector<int> labels_;                    // of each detection, -1: another category
  // By position in images_: of each class that the image has or was found to have. Few of many
  // have both, so that a thousand classes take no more memory than there are boxes.
  std::vector<std::vector<std::pair<size_t, ImageMatches>>> matches_;
  std::vector<std::vector<const ImageMatches*>> of_class_;  // of images in their order
  std::vector<Curve> curves_;                               // [class, area, limit]
};

}  // namespace

const std::array<const char*, 12> kCocoStatNames = {
    "bbox_mAP",  "bbox_mAP_50", "bbox_mAP_75", "bbox_mAP_s", "bbox_mAP_m", "bbox_mAP_l",
    "bbox_AR_1", "bbox_AR_10",  "bbox_AR_100", "bbox_AR_s",  "bbox_AR_m",  "bbox_AR_l"};

CocoResult EvaluateBbox(const data::CocoDataset& dataset, const Detections& detections,
                        int threads) {
  if (detections.boxes.size() != 4 * detections.size() ||
      detections.image_ids.size() != detections.size() ||
      detections.category_ids.size() != detections.size()) {
    throw UsageError(
        {.what = "detections whose vectors differ in length",
         .expected = "one image id, four box numbers, one score and one category id each"});
  }
  return Evaluation(dataset, detections, threads).Run();
}

}  // namespace xp::train
