// Matching boxes with ground truth and drawing the numbers by which they are sampled.
//
// A BoxSource is a small struct passed by value: `int count` boxes an image, and
//   __device__ bool At(int image, int i, Box* box) const;    false: there is no such box
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/boxes.h"
#include "kernels/matching.h"
#include "kernels/sampling.h"

namespace xp::kernels {

// The ground truth of a batch: boxes [N, G], counts [N].
struct GroundTruth {
  const Box* boxes;
  const int32_t* counts;
  int images, capacity;

  __device__ int Count(int image) const { return min(max(counts[image], 0), capacity); }
};

namespace match_detail {

constexpr int kThreads = 256;
constexpr int kOwn = 4;     // consecutive boxes a thread, which share a Philox block
constexpr int kTile = 128;  // ground truth boxes held in shared memory

__device__ inline int LoadTruth(const GroundTruth& truth, int image, int base, int count,
                                Box* tile) {
  __syncthreads();
  int some = min(kTile, count - base);
  for (int g = threadIdx.x; g < some; g += kThreads) {
    tile[g] = truth.boxes[static_cast<int64_t>(image) * truth.capacity + base + g];
  }
  __syncthreads();
  return some;
}

// best[n, g]: the largest overlap with any box in the high word (a float's bits, which order like
// integers), the complement of the first such box in the low one; 0 where none overlaps.
template <typename BoxSource>
__global__ void __launch_bounds__(kThreads) FindBest(const __grid_constant__ BoxSource source,
                                                     GroundTruth truth, unsigned long long* best) {
  __shared__ Box tile[kTile];
  __shared__ unsigned long long tile_best[kTile];
  int image = blockIdx.y, count = truth.Count(image);
  int first = (static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x)) * kOwn;
  Box boxes[kOwn];
  bool valid[kOwn];
  for (int j = 0; j < kOwn; ++j) {
    valid[j] = first + j < source.count && source.At(image, first + j, &boxes[j]);
  }
  for (int base = 0; base < count; base += kTile) {
    int some = LoadTruth(truth, image, base, count, tile);
    for (int g = threadIdx.x; g < some; g += kThreads) tile_best[g] = 0;
    __syncthreads();
    for (int g = 0; g < some; ++g) {
      unsigned long long mine = 0;
      for (int j = 0; j < kOwn; ++j) {
        float iou = valid[j] ? Iou(tile[g], boxes[j]) : 0.0f;
        if (!(iou > 0)) continue;
        unsigned long long key = (static_cast<unsigned long long>(FloatBits(iou)) << 32) |
                                 (0xffffffffu - static_cast<uint32_t>(first + j));
        mine = key > mine ? key : mine;
      }
      if (!__any_sync(0xffffffffu, mine != 0)) continue;
      for (int offset = 16; offset > 0; offset /= 2) {
        unsigned long long other = __shfl_xor_sync(0xffffffffu, mine, offset);
        mine = other > mine ? other : mine;
      }
      if (threadIdx.x % 32 == 0) atomicMax(&tile_best[g], mine);
    }
    __syncthreads();
    for (int g = threadIdx.x; g < some; g += kThreads) {
      if (tile_best[g] != 0) {
        atomicMax(&best[static_cast<int64_t>(image) * truth.capacity + base + g], tile_best[g]);
      }
    }
  }
}

// matched[n, i] as Decide() gives it, kIgnored where there is no box; with `keys`, each box's draw
// and the number of positives of each image (zero before) as well.
template <typename BoxSource>
__global__ void __launch_bounds__(kThreads)
    Match(const __grid_constant__ BoxSource source, GroundTruth truth, MatchParams params,
          const unsigned long long* best, const uint32_t* step_key, RandomPurpose purpose,
          int32_t* matched, uint32_t* keys, int32_t* positives) {
  __shared__ Box tile[kTile];
  __shared__ float tile_best[kTile];
  int image = blockIdx.y, count = truth.Count(image);
  int first = (static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x)) * kOwn;
  Box boxes[kOwn];
  bool valid[kOwn];
  BestMatch matches[kOwn];
  for (int j = 0; j < kOwn; ++j) {
    valid[j] = first + j < source.count && source.At(image, first + j, &boxes[j]);
  }
  for (int base = 0; base < count; base += kTile) {
    int some = LoadTruth(truth, image, base, count, tile);
    for (int g = threadIdx.x; params.low_quality && g < some; g += kThreads) {
      unsigned long long b = best[static_cast<int64_t>(image) * truth.capacity + base + g];
      tile_best[g] = BitsFloat(static_cast<uint32_t>(b >> 32));
    }
    __syncthreads();
    for (int g = 0; g < some; ++g) {
      for (int j = 0; j < kOwn; ++j) {
        float iou = valid[j] ? Iou(tile[g], boxes[j]) : 0.0f;
        if (!(iou > 0)) continue;
        matches[j].See(iou, base + g);
        if (params.low_quality) matches[j].SeeBest(iou, base + g, tile_best[g], params);
      }
    }
  }
  int found = 0;
  Philox4 draws{};
  if (keys != nullptr) {
    draws = SampleKeys(ReadStepKey(step_key), purpose, static_cast<uint32_t>(image),
                       static_cast<uint32_t>(first / kOwn));
  }
  int64_t row = static_cast<int64_t>(image) * source.count;
  for (int j = 0; j < kOwn; ++j) {
    if (first + j >= source.count) break;
    int decision = valid[j] ? matches[j].Decide(params) : kIgnored;
    matched[row + first + j] = decision;
    if (keys != nullptr) keys[row + first + j] = draws.v[j];
    found += decision >= 0;
  }
  if (positives == nullptr) return;
  for (int offset = 16; offset > 0; offset /= 2) {
    found += __shfl_xor_sync(0xffffffffu, found, offset);
  }
  if (threadIdx.x % 32 == 0 && found > 0) atomicAdd(&positives[image], found);
}

template <typename BoxSource>
dim3 Grid(const BoxSource& source, int images) {
  return dim3(static_cast<unsigned>((source.count + kThreads * kOwn - 1) / (kThreads * kOwn)),
              static_cast<unsigned>(images));
}

}  // namespace match_detail

template <typename BoxSource>
void FindBestBoxes(const BoxSource& source, const GroundTruth& truth, unsigned long long* best,
                   cudaStream_t stream) {
  using namespace match_detail;
  if (truth.images == 0 || truth.capacity == 0) return;
  size_t count = static_cast<size_t>(truth.images) * static_cast<size_t>(truth.capacity);
  cudaMemsetAsync(best, 0, sizeof(*best) * count, stream);
  if (source.count == 0) return;
  FindBest<<<Grid(source, truth.images), kThreads, 0, stream>>>(source, truth, best);
}

template <typename BoxSource>
void MatchBoxes(const BoxSource& source, const GroundTruth& truth, const MatchParams& params,
                const unsigned long long* best, const uint32_t* step_key, RandomPurpose purpose,
                int32_t* matched, uint32_t* keys, int32_t* positives, cudaStream_t stream) {
  using namespace match_detail;
  if (positives != nullptr) {
    cudaMemsetAsync(positives, 0, sizeof(int32_t) * static_cast<size_t>(truth.images), stream);
  }
  if (source.count == 0 || truth.images == 0) return;
  Match<<<Grid(source, truth.images), kThreads, 0, stream>>>(source, truth, params, best, step_key,
                                                             purpose, matched, keys, positives);
}

}  // namespace xp::kernels
