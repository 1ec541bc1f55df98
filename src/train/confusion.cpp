#include "exp/train/confusion.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace xp::train {
namespace {

struct Box {
  double x = 0, y = 0, w = 0, h = 0;
  double Area() const { return std::max(w, 0.0) * std::max(h, 0.0); }
};

double Intersection(const Box& a, const Box& b) {
  double w = std::min(a.x + a.w, b.x + b.w) - std::max(a.x, b.x);
  double h = std::min(a.y + a.h, b.y + b.h) - std::max(a.y, b.y);
  return w > 0 && h > 0 ? w * h : 0;
}

struct Found {
  Box box;
  double score = 0;
  size_t label = 0;
};

struct Pair {
  double iou = 0, score = 0;
  size_t found = 0, truth = 0;
};

std::vector<Pair> Pairs(const std::vector<Found>& found,
                        const std::vector<const data::CocoAnnotation*>& truth, double min_iou) {
  std::vector<Pair> pairs;
  for (size_t f = 0; f < found.size(); ++f) {
    for (size_t t = 0; t < truth.size(); ++t) {
      Box box{truth[t]->x, truth[t]->y, truth[t]->w, truth[t]->h};
      double both = Intersection(found[f].box, box);
      double either = found[f].box.Area() + box.Area() - both;
      double iou = either > 0 ? both / either : 0;
      if (iou >= min_iou) pairs.push_back({iou, found[f].score, f, t});
    }
  }
  std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
    return std::tuple(-a.iou, -a.score, a.found, a.truth) <
           std::tuple(-b.iou, -b.score, b.found, b.truth);
  });
  return pairs;
}

// One image's part of the counts.
void AddImage(std::span<const data::CocoAnnotation> annotations, const std::vector<Found>& found,
              double min_iou, Confusion* c) {
  size_t n = c->classes.size() + 1;
  std::vector<const data::CocoAnnotation*> truth, crowds;
  for (const data::CocoAnnotation& a : annotations) (a.crowd ? crowds : truth).push_back(&a);
  std::vector<bool> used(found.size()), met(truth.size());
  for (const Pair& p : Pairs(found, truth, min_iou)) {
    if (used[p.found] || met[p.truth]) continue;
    used[p.found] = met[p.truth] = true;
    ++c->counts[static_cast<size_t>(truth[p.truth]->category) * n + found[p.found].label];
  }
  for (size_t t = 0; t < truth.size(); ++t) {
    if (!met[t]) ++c->counts[static_cast<size_t>(truth[t]->category) * n + n - 1];
  }
  for (size_t f = 0; f < found.size(); ++f) {
    bool covered = std::any_of(crowds.begin(), crowds.end(), [&](const data::CocoAnnotation* a) {
      return 2 * Intersection(found[f].box, {a->x, a->y, a->w, a->h}) >= found[f].box.Area();
    });
    if (!used[f] && !covered) ++c->counts[(n - 1) * n + found[f].label];
  }
}

}  // namespace

Confusion ConfusionOf(const data::CocoDataset& dataset, const Detections& detections,
                      double min_score, double min_iou) {
  Confusion c;
  std::unordered_map<int64_t, size_t> label_of;
  for (const data::Category& category : dataset.categories) {
    label_of[category.id] = c.classes.size();
    c.classes.push_back(category.name);
  }
  c.counts.resize((c.classes.size() + 1) * (c.classes.size() + 1));
  std::vector<std::vector<Found>> by_image(dataset.images.size());
  for (size_t i = 0; i < detections.size(); ++i) {
    auto image = dataset.image_index.find(detections.image_ids[i]);
    auto label = label_of.find(detections.category_ids[i]);
    bool counts = detections.scores[i] >= min_score && image != dataset.image_index.end() &&
                  label != label_of.end();
    if (!counts) continue;
    const double* b = detections.boxes.data() + 4 * i;
    by_image[static_cast<size_t>(image->second)].push_back(
        {{b[0], b[1], b[2], b[3]}, detections.scores[i], label->second});
  }
  for (size_t i = 0; i < by_image.size(); ++i)
    AddImage(dataset.Of(static_cast<int>(i)), by_image[i], min_iou, &c);
  return c;
}

}  // namespace xp::train
