#include "src/graph/cpu/box_matching.h"

#include <algorithm>
#include <functional>

#include "src/graph/cpu/parallel.h"

namespace xp::graph::cpu {

namespace {

constexpr size_t kChunk = 2048;  // boxes a task; the result doesn't depend on it

// One chunk's first round: the best ground truth of each box, and the best overlap of each ground
// truth within the chunk.
void SeeOverlaps(std::span<const kernels::Box> boxes, std::span<const kernels::Box> truth,
                 kernels::BestMatch* matches, float* best) {
  for (size_t i = 0; i < boxes.size(); ++i) {
    kernels::BestMatch match;
    for (size_t g = 0; g < truth.size(); ++g) {
      float overlap = kernels::Iou(truth[g], boxes[i]);
      match.See(overlap, static_cast<int>(g));
      best[g] = std::max(best[g], overlap);
    }
    matches[i] = match;
  }
}

// Its second round: which boxes are the best of a ground truth. Most meet none.
void SeeBest(std::span<const kernels::Box> boxes, std::span<const kernels::Box> truth,
             const std::vector<float>& best, const kernels::MatchParams& params,
             kernels::BestMatch* matches) {
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (!(matches[i].iou > 0)) continue;
    for (size_t g = 0; g < truth.size(); ++g) {
      matches[i].SeeBest(kernels::Iou(truth[g], boxes[i]), static_cast<int>(g), best[g], params);
    }
  }
}

}  // namespace

void MatchBoxes(int threads, std::span<const kernels::Box> boxes,
                std::span<const kernels::Box> truth, const kernels::MatchParams& params,
                int32_t* matched) {
  int chunks = static_cast<int>((boxes.size() + kChunk - 1) / kChunk);
  std::vector<kernels::BestMatch> matches(boxes.size());
  std::vector<float> best(truth.size() * static_cast<size_t>(chunks), 0);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int c = 0; c < chunks; ++c) {
    size_t first = static_cast<size_t>(c) * kChunk;
    SeeOverlaps(boxes.subspan(first, std::min(kChunk, boxes.size() - first)), truth,
                &matches[first], best.data() + static_cast<size_t>(c) * truth.size());
  }
  std::vector<float> gt_best(truth.size(), 0);
  for (size_t i = 0; i < best.size(); ++i) {  // a maximum is the same in any order
    gt_best[i % truth.size()] = std::max(gt_best[i % truth.size()], best[i]);
  }
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int c = 0; c < chunks; ++c) {
    size_t first = static_cast<size_t>(c) * kChunk, some = std::min(kChunk, boxes.size() - first);
    if (params.low_quality) {
      SeeBest(boxes.subspan(first, some), truth, gt_best, params, &matches[first]);
    }
    for (size_t i = first; i < first + some; ++i) matched[i] = matches[i].Decide(params);
  }
}

std::vector<uint32_t> DrawKeys(const kernels::StepKey& key, RandomPurpose purpose, int image,
                               int count) {
  std::vector<uint32_t> keys(static_cast<size_t>(count));
  for (size_t i = 0; i < keys.size(); i += 4) {
    Philox4 block = kernels::SampleKeys(key, purpose, static_cast<uint32_t>(image),
                                        static_cast<uint32_t>(i / 4));
    for (size_t j = i; j < std::min(i + 4, keys.size()); ++j) keys[j] = block.v[j - i];
  }
  return keys;
}

void KeepSmallest(std::vector<int32_t>& elements, const std::vector<uint32_t>& keys, int wanted) {
  if (static_cast<int>(elements.size()) > wanted) {
    auto before = [&](int32_t a, int32_t b) {
      uint32_t ka = keys[static_cast<size_t>(a)], kb = keys[static_cast<size_t>(b)];
      return ka != kb ? ka < kb : a < b;
    };
    std::nth_element(elements.begin(), elements.begin() + wanted, elements.end(), before);
    elements.resize(static_cast<size_t>(wanted));
  }
  std::sort(elements.begin(), elements.end());
}

namespace {

// One array a coordinate, so that comparing one box with all later ones becomes vector
// instructions.
struct Columns {
  std::vector<float> x1, y1, x2, y2, area;

  explicit Columns(std::span<const kernels::Box> boxes) {
    for (const kernels::Box& b : boxes) {
      x1.push_back(b.x1);
      y1.push_back(b.y1);
      x2.push_back(b.x2);
      y2.push_back(b.y2);
      area.push_back(kernels::Area(b));
    }
  }
};

// gone[j] |= Iou(box, box j) > threshold for j in [begin, end): the same operations as
// kernels::Iou, without its early returns (0 / 0 is larger than nothing).
XP_SIMD_CLONES void MarkOverlaps(const kernels::Box& box, float area, const Columns& c,
                                 size_t begin, size_t end, float threshold, int32_t* gone) {
  const float *x1 = c.x1.data(), *y1 = c.y1.data(), *x2 = c.x2.data(), *y2 = c.y2.data();
  const float* areas = c.area.data();
#pragma omp simd
  for (size_t j = begin; j < end; ++j) {
    float left = box.x1 > x1[j] ? box.x1 : x1[j];
    float top = box.y1 > y1[j] ? box.y1 : y1[j];
    float right = box.x2 < x2[j] ? box.x2 : x2[j];
    float bottom = box.y2 < y2[j] ? box.y2 : y2[j];
    float w = right - left, h = bottom - top;
    w = w > 0 ? w : 0;
    h = h > 0 ? h : 0;
    float inter = w * h;
    gone[j] |= inter / (area + areas[j] - inter) > threshold ? 1 : 0;
  }
}

}  // namespace

std::vector<int32_t> Suppress(std::span<const kernels::Box> ranked, float threshold, int most) {
  Columns columns(ranked);
  std::vector<int32_t> gone(ranked.size(), 0), kept;
  for (size_t i = 0; i < ranked.size() && static_cast<int>(kept.size()) < most; ++i) {
    if (gone[i]) continue;
    kept.push_back(static_cast<int32_t>(i));
    MarkOverlaps(ranked[i], columns.area[i], columns, i + 1, ranked.size(), threshold, gone.data());
  }
  return kept;
}

void KeepBest(std::vector<uint64_t>& keys, int most) {
  if (static_cast<int>(keys.size()) > most) {
    std::nth_element(keys.begin(), keys.begin() + most, keys.end(), std::greater<>());
    keys.resize(static_cast<size_t>(most));
  }
  std::sort(keys.begin(), keys.end(), std::greater<>());
}

}  // namespace xp::graph::cpu
