// Steps that several detection operations of the CPU share: matching, sampling, suppression.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/boxes.h"
#include "kernels/matching.h"
#include "kernels/sampling.h"

namespace xp::graph::cpu {

// matched[i]: the ground truth of boxes[i], or kernels::kBackground or kernels::kIgnored.
void MatchBoxes(int threads, std::span<const kernels::Box> boxes,
                std::span<const kernels::Box> truth, const kernels::MatchParams& params,
                int32_t* matched);

// The draws of one image for one purpose, for elements 0 .. count-1.
std::vector<uint32_t> DrawKeys(const kernels::StepKey& key, RandomPurpose purpose, int image,
                               int count);

// Leaves the `wanted` elements with the smallest keys (ties: the lower element), ascending. `keys`
// is indexed by element.
void KeepSmallest(std::vector<int32_t>& elements, const std::vector<uint32_t>& keys, int wanted);

// Greedy suppression of boxes given in order of rank: returns the positions that stay, at most
// `most`. A box goes when its overlap with one that stays is larger than `threshold`.
std::vector<int32_t> Suppress(std::span<const kernels::Box> ranked, float threshold, int most);

// Sorts by score, best first (ties: the lower number): the high word is a kernels::ScoreKey, the
// low one the complement of the element's number.
inline uint64_t RankKey(float score, uint32_t number) {
  return (static_cast<uint64_t>(kernels::ScoreKey(score)) << 32) | (0xffffffffu - number);
}
inline uint32_t RankNumber(uint64_t key) { return 0xffffffffu - static_cast<uint32_t>(key); }

// Leaves the `most` largest keys, largest first.
void KeepBest(std::vector<uint64_t>& keys, int most);

}  // namespace xp::graph::cpu
