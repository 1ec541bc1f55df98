#include "src/graph/cpu/box_matching.h"

#include <algorithm>
#include <functional>

namespace xp::graph::cpu {

namespace {

constexpr int kChunk = 2048;  // boxes a task; the result doesn't depend on it

// The best overlap of each ground truth with any box. A maximum is the same in any order.
std::vector<float> BestOverlaps(int threads, std::span<const kernels::Box> boxes,
                                std::span<const kernels::Box> truth) {
  std::vector<float> best(truth.size(), 0);
  int count = static_cast<int>(truth.size());
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int g = 0; g < count; ++g) {
    float most = 0;
    for (const kernels::Box& box : boxes) {
      most = std::max(most, kernels::Iou(truth[static_cast<size_t>(g)], box));
    }
    best[static_cast<size_t>(g)] = most;
  }
  return best;
}

}  // namespace

void MatchBoxes(int threads, std::span<const kernels::Box> boxes,
                std::span<const kernels::Box> truth, const kernels::MatchParams& params,
                int32_t* matched) {
  std::vector<float> best(truth.size(), 2);  // no overlap is that large
  if (params.low_quality) best = BestOverlaps(threads, boxes, truth);
  int count = static_cast<int>(boxes.size());
#pragma omp parallel for num_threads(threads) schedule(static, kChunk)
  for (int i = 0; i < count; ++i) {
    kernels::BestMatch match;
    for (size_t g = 0; g < truth.size(); ++g) {
      match.See(kernels::Iou(truth[g], boxes[static_cast<size_t>(i)]), static_cast<int>(g), best[g],
                params);
    }
    matched[i] = match.Decide(params);
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

std::vector<int32_t> Suppress(std::span<const kernels::Box> ranked, float threshold, int most) {
  size_t count = ranked.size();
  // One array a coordinate, so that the inner loop becomes vector instructions.
  std::vector<float> x1(count), y1(count), x2(count), y2(count);
  for (size_t i = 0; i < count; ++i) {
    x1[i] = ranked[i].x1;
    y1[i] = ranked[i].y1;
    x2[i] = ranked[i].x2;
    y2[i] = ranked[i].y2;
  }
  std::vector<int32_t> gone(count, 0), kept;
  for (size_t i = 0; i < count && static_cast<int>(kept.size()) < most; ++i) {
    if (gone[i]) continue;
    kept.push_back(static_cast<int32_t>(i));
    kernels::Box winner = ranked[i];
#pragma omp simd
    for (size_t j = i + 1; j < count; ++j) {
      kernels::Box other{x1[j], y1[j], x2[j], y2[j]};
      gone[j] |= kernels::Iou(winner, other) > threshold ? 1 : 0;
    }
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
