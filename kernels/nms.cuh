// Greedy suppression of many sorted lists of boxes at once: a bit matrix of overlaps, then a scan
// of each list by one block. Boxes are given best first; one goes when its overlap with one that
// stays is larger than the threshold. A box whose x1 is NaN was never there.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/boxes.h"
#include "kernels/scratch.h"

namespace xp::kernels {

namespace nms_detail {

constexpr int kTile = 64;  // bits of a word
constexpr int kThreads = 256;
constexpr int kShares = 8;

// Block (row tile, list): bit j of mask[list][i][word] = box i (before word * 64 + j) removes it.
// Only words from the row's own on are written.
static __global__ void __launch_bounds__(kThreads)
    OverlapBits(const Box* boxes, const int32_t* counts, int capacity, float threshold,
                uint64_t* mask) {
  constexpr int kAtOnce = kThreads / kTile;
  __shared__ Box columns[kAtOnce][kTile];
  int list = blockIdx.y, count = counts[list], words = (capacity + kTile - 1) / kTile;
  int row = static_cast<int>(blockIdx.x) * kTile + static_cast<int>(threadIdx.x) % kTile;
  if (static_cast<int>(blockIdx.x) * kTile >= count) return;
  int part = threadIdx.x / kTile, own = threadIdx.x % kTile;
  const Box* from = boxes + static_cast<int64_t>(list) * capacity;
  Box box{0, 0, 0, 0};
  if (row < count) box = from[row];
  int tiles = (count + kTile - 1) / kTile;
  for (int first = blockIdx.x; first < tiles; first += kAtOnce) {
    int word = first + part;
    __syncthreads();
    if (word < tiles && word * kTile + own < count) columns[part][own] = from[word * kTile + own];
    __syncthreads();
    if (word >= tiles || row >= count) continue;
    uint64_t bits = 0;
    int some = min(kTile, count - word * kTile);
    for (int j = word == static_cast<int>(blockIdx.x) ? own + 1 : 0; j < some; ++j) {
      if (Iou(box, columns[part][j]) > threshold) bits |= uint64_t{1} << j;
    }
    mask[(static_cast<int64_t>(list) * capacity + row) * words + word] = bits;
  }
}

// Block: a list. kept[list] = positions that stay, in order, at most `most`; removed is in shared
// memory, a bit a box.
static __global__ void __launch_bounds__(kThreads)
    ScanLists(const Box* boxes, const int32_t* counts, int capacity, int most, const uint64_t* mask,
              int32_t* kept, int32_t* kept_counts) {
  extern __shared__ unsigned long long removed[];
  __shared__ uint64_t diagonal[kTile];
  __shared__ uint64_t chosen;
  int list = blockIdx.x, count = counts[list], words = (capacity + kTile - 1) / kTile;
  const Box* from = boxes + static_cast<int64_t>(list) * capacity;
  const uint64_t* rows = mask + static_cast<int64_t>(list) * capacity * words;
  for (int w = threadIdx.x; w < words; w += kThreads) removed[w] = 0;
  int total = 0;
  for (int word = 0; word * kTile < count && total < most; ++word) {
    int base = word * kTile, some = min(kTile, count - base);
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < some) {
      // A box that was never there removes itself.
      float x1 = from[base + threadIdx.x].x1;
      bool absent = x1 != x1;
      diagonal[threadIdx.x] = absent
                                  ? uint64_t{1} << threadIdx.x
                                  : rows[static_cast<int64_t>(base + threadIdx.x) * words + word];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      uint64_t stay = 0, left = ~removed[word];
      if (some < kTile) left &= (uint64_t{1} << some) - 1;
      for (int room = most - total; left != 0 && room > 0;) {
        int j = __ffsll(static_cast<long long>(left)) - 1;
        uint64_t bit = uint64_t{1} << j, row = diagonal[j];
        left &= ~(bit | row);
        if ((row & bit) != 0) continue;
        stay |= bit;
        --room;
      }
      chosen = stay;
    }
    __syncthreads();
    uint64_t stay = chosen;
    if (static_cast<int>(threadIdx.x) < some && ((stay >> threadIdx.x) & 1) != 0) {
      int place = total + __popcll(stay & ((uint64_t{1} << threadIdx.x) - 1));
      kept[static_cast<int64_t>(list) * capacity + place] = base + static_cast<int>(threadIdx.x);
    }
    total += __popcll(stay);
    // What those that stay remove further on: kShares threads a word, each with every kShares-th
    // row, so that the loads are under way together.
    int words_left = (count + kTile - 1) / kTile - word - 1;
    for (int k = threadIdx.x; k < words_left * kShares; k += kThreads) {
      int w = word + 1 + k % words_left;
      uint64_t gone = 0;
#pragma unroll
      for (int i = 0; i < kTile / kShares; ++i) {
        int row = k / words_left + i * kShares;
        if (((stay >> row) & 1) != 0) gone |= rows[static_cast<int64_t>(base + row) * words + w];
      }
      if (gone != 0) atomicOr(&removed[w], static_cast<unsigned long long>(gone));
    }
  }
  if (threadIdx.x == 0) kept_counts[list] = total;
}

}  // namespace nms_detail

struct SuppressScratch {
  SuppressScratch(Scratch& scratch, int lists_, int capacity_)
      : lists(lists_),
        capacity(capacity_),
        words((capacity_ + nms_detail::kTile - 1) / nms_detail::kTile),
        mask(scratch.Take<uint64_t>(static_cast<int64_t>(lists_) * capacity_ * words)),
        kept(scratch.Take<int32_t>(static_cast<int64_t>(lists_) * capacity_)),
        kept_counts(scratch.Take<int32_t>(lists_)) {}

  int lists, capacity, words;
  uint64_t* mask;
  int32_t* kept;         // [lists, capacity] positions that stay
  int32_t* kept_counts;  // [lists]
};

// boxes [lists, capacity], counts [lists].
inline void Suppress(const Box* boxes, const int32_t* counts, float threshold, int most,
                     const SuppressScratch& s, cudaStream_t stream) {
  using namespace nms_detail;
  if (s.lists == 0 || s.capacity == 0) return;
  dim3 grid(static_cast<unsigned>(s.words), static_cast<unsigned>(s.lists));
  OverlapBits<<<grid, kThreads, 0, stream>>>(boxes, counts, s.capacity, threshold, s.mask);
  ScanLists<<<static_cast<unsigned>(s.lists), kThreads,
              sizeof(uint64_t) * static_cast<size_t>(s.words), stream>>>(
      boxes, counts, s.capacity, most, s.mask, s.kept, s.kept_counts);
}

}  // namespace xp::kernels
