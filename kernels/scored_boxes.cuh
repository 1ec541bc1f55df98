// The end of every detector: candidates of several classes, unsorted, to an image's list of
// detections. Candidates are rank keys (select.cuh) of (score, number).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/boxes.h"
#include "kernels/rank_sort.cuh"
#include "kernels/scratch.h"
#include "kernels/select.cuh"

namespace xp::kernels {

struct DetectionOutputs {
  Box* boxes;       // [N, D]
  float* scores;    // [N, D]
  int32_t* labels;  // [N, D]
  int32_t* counts;  // [N]
};

struct CandidateScratch {
  CandidateScratch(Scratch& scratch, int images_, int capacity_)
      : images(images_),
        capacity(capacity_),
        keys(scratch.Take<uint64_t>(static_cast<int64_t>(images_) * capacity_)),
        counts(scratch.Take<int32_t>(images_)),
        sorted(scratch.Take<uint64_t>(static_cast<int64_t>(images_) * capacity_)),
        boxes(scratch.Take<Box>(static_cast<int64_t>(images_) * capacity_)) {}

  int images, capacity;  // capacity: candidates of an image
  uint64_t* keys;        // [images, capacity], in any order
  int32_t* counts;       // [images], to be cleared before candidates are appended
  uint64_t* sorted;      // the same, sorted, with their boxes
  Box* boxes;
};

// The order in which threads come decides where a key stands, and sorting makes up for it.
__device__ inline void AppendCandidate(uint64_t* keys, int32_t* counts, int capacity, int image,
                                       uint64_t key) {
  int place = atomicAdd(&counts[image], 1);
  if (place < capacity) keys[static_cast<int64_t>(image) * capacity + place] = key;
}

namespace scored_boxes_detail {

constexpr int kThreads = 256;  // candidates looked at together
constexpr int kWarps = kThreads / 32;

template <typename BoxOf>
struct PlaceBox {
  BoxOf box_of;
  int capacity;
  uint64_t* sorted;
  Box* boxes;

  __device__ void operator()(int image, int rank, uint64_t key) const {
    int64_t at = static_cast<int64_t>(image) * capacity + rank;
    sorted[at] = key;
    boxes[at] = box_of(image, RankKeyNumber(key));
  }
};

// Block: an image. Takes kThreads candidates at a time in order of rank: each is compared with the
// detections so far, then with those before it in its group.
static __global__ void __launch_bounds__(kThreads)
    KeepDetections(const uint64_t* sorted, const Box* candidates, const int32_t* candidate_counts,
                   int candidate_capacity, int classes, float threshold, int most,
                   DetectionOutputs out) {
  __shared__ Box group[kThreads];
  __shared__ int group_labels[kThreads];
  __shared__ unsigned alive[kWarps], chosen[kWarps];
  __shared__ unsigned blockers[kThreads][kWarps + 1];  // one more: no two rows in one bank
  int image = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int count = min(candidate_counts[image], candidate_capacity);
  int64_t from = static_cast<int64_t>(image) * candidate_capacity;
  int64_t row = static_cast<int64_t>(image) * most;
  int total = 0;
  for (int base = 0; base < count && total < most; base += kThreads) {
    int i = base + static_cast<int>(threadIdx.x);
    bool stays = i < count;
    Box box{0, 0, 0, 0};
    uint64_t key = 0;
    int label = -1;
    if (stays) {
      box = candidates[from + i];
      key = sorted[from + i];
      label = static_cast<int>(RankKeyNumber(key) % static_cast<uint32_t>(classes));
    }
    for (int k = 0; stays && k < total; ++k) {
      if (out.labels[row + k] == label && Iou(out.boxes[row + k], box) > threshold) stays = false;
    }
    group[threadIdx.x] = box;
    group_labels[threadIdx.x] = label;
    unsigned mask = __ballot_sync(0xffffffffu, stays);
    if (lane == 0) alive[warp] = mask;
    __syncthreads();
    for (int w = 0; w < kWarps; ++w) {
      unsigned bits = 0;
      for (int j = 0; w <= warp && stays && j < 32; ++j) {
        int other = w * 32 + j;
        if (other >= static_cast<int>(threadIdx.x)) break;
        if (group_labels[other] == label && Iou(group[other], box) > threshold) bits |= 1u << j;
      }
      blockers[threadIdx.x][w] = bits;
    }
    __syncthreads();
    if (warp == 0) {  // lane w < kWarps holds the chosen of 32 candidates
      unsigned mine = 0;
      int room = most - total;
      for (int j = 0; j < kThreads && room > 0; ++j) {
        if (((alive[j / 32] >> (j % 32)) & 1) == 0) continue;
        bool blocked = lane < kWarps && (blockers[j][lane] & mine) != 0;
        if (__any_sync(0xffffffffu, blocked)) continue;
        if (lane == j / 32) mine |= 1u << (j % 32);
        --room;
      }
      if (lane < kWarps) chosen[lane] = mine;
    }
    __syncthreads();
    int place = total + __popc(chosen[warp] & ((1u << lane) - 1));
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) place += __popc(chosen[w]);
      total += __popc(chosen[w]);
    }
    if (((chosen[warp] >> lane) & 1) != 0) {
      out.boxes[row + place] = box;
      out.scores[row + place] = KeyScore(static_cast<uint32_t>(key >> 32));
      out.labels[row + place] = label;
    }
    __syncthreads();  // the next group reads the detections
  }
  for (int i = total + static_cast<int>(threadIdx.x); i < most; i += kThreads) {
    out.boxes[row + i] = Box{0, 0, 0, 0};
    out.scores[row + i] = 0;
    out.labels[row + i] = 0;
  }
  if (threadIdx.x == 0) out.counts[image] = total;
}

}  // namespace scored_boxes_detail

// box_of(image, number) gives a candidate's box; its class is number % classes. `most`: D.
template <typename BoxOf>
void SortAndKeep(const CandidateScratch& s, const BoxOf& box_of, int classes, float threshold,
                 int most, const DetectionOutputs& out, cudaStream_t stream) {
  using namespace scored_boxes_detail;
  if (s.images == 0) return;
  RankSort(s.keys, s.counts, s.images, s.capacity,
           PlaceBox<BoxOf>{box_of, s.capacity, s.sorted, s.boxes}, stream);
  KeepDetections<<<static_cast<unsigned>(s.images), kThreads, 0, stream>>>(
      s.sorted, s.boxes, s.counts, s.capacity, classes, threshold, most, out);
}

}  // namespace xp::kernels
