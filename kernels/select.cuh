// The k best of each of many segments, exactly and in a fixed order: radix select on 32-bit keys,
// ties to the lower element. A few passes over all segments at once; integer counts only, so the
// result doesn't depend on the order in which blocks run.
//
// A Source is a small struct passed by value:
//   __device__ int Count(int segment) const;                    elements of a segment
//   __device__ int Wanted(int segment) const;                   how many at most are chosen
//   __device__ bool Key(int segment, int i, uint32_t* key) const;   false: not a candidate
//   __device__ uint32_t Number(int segment, int i) const;       grows with i; goes into the result
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/scratch.h"

namespace xp::kernels {

// What Select gives for an element: larger is better; Number() is in the low word, complemented.
__host__ __device__ inline uint64_t MakeRankKey(uint32_t key, uint32_t number) {
  return (static_cast<uint64_t>(key) << 32) | (0xffffffffu - number);
}
__host__ __device__ inline uint32_t RankKeyNumber(uint64_t key) {
  return 0xffffffffu - static_cast<uint32_t>(key);
}

namespace select_detail {

constexpr int kThreads = 256;
constexpr int kChunk = 4096;  // elements a block
constexpr int kBins = 2048;

struct State {
  uint32_t prefix;  // of the k-th best key, as far as it is known
  int wanted;       // how many of those that start with the prefix
  int settled;      // 1: all or none are chosen, nothing to look for
};

struct ChunkCount {
  int above, equal;  // keys larger than the k-th best one, equal to it
};

// Sum over the block; every thread gets it. `buffer` has room for a number a warp.
__device__ inline int BlockSum(int value, int* buffer) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) buffer[threadIdx.x / 32] = value;
  __syncthreads();
  int sum = 0;
  for (int w = 0; w < kThreads / 32; ++w) sum += buffer[w];
  return sum;
}

// Block (chunk, segment). Counts the digit `bits` wide at `shift` of the keys that start with the
// prefix found so far.
template <typename Source>
__global__ void __launch_bounds__(kThreads)
    CountDigits(const __grid_constant__ Source source, const State* states, int* histograms,
                int shift, int bits) {
  __shared__ int bins[kBins];
  int segment = blockIdx.y, begin = blockIdx.x * kChunk;
  int end = min(source.Count(segment), begin + kChunk);
  if (begin >= end) return;
  bool first = shift + bits == 32;
  State state = first ? State{0, 0, 0} : states[segment];
  if (state.settled) return;
  uint32_t known = first ? 0 : 0xffffffffu << (shift + bits);
  for (int b = threadIdx.x; b < kBins; b += kThreads) bins[b] = 0;
  __syncthreads();
  for (int i = begin + threadIdx.x; i < end; i += kThreads) {
    uint32_t key;
    if (!source.Key(segment, i, &key) || (key & known) != state.prefix) continue;
    atomicAdd(&bins[(key >> shift) & ((1u << bits) - 1)], 1);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < kBins; b += kThreads) {
    if (bins[b] != 0) atomicAdd(&histograms[segment * kBins + b], bins[b]);
  }
}

// Block: a segment. Finds the digit of the k-th best key, and clears the histogram for the next.
template <typename Source>
__global__ void __launch_bounds__(kThreads)
    PickDigit(const __grid_constant__ Source source, State* states, int* histograms, int shift,
              int bits) {
  constexpr int kOwn = kBins / kThreads;
  __shared__ int sums[kThreads];
  int segment = blockIdx.x;
  int* histogram = histograms + segment * kBins;
  bool first = shift + bits == 32;
  State state = first ? State{0, source.Wanted(segment), 0} : states[segment];
  int own[kOwn], sum = 0;  // this thread's bins, from the largest digit downwards
  for (int j = 0; j < kOwn; ++j) {
    int bin = kBins - 1 - (static_cast<int>(threadIdx.x) * kOwn + j);
    own[j] = histogram[bin];
    histogram[bin] = 0;
    sum += own[j];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int offset = 1; offset < kThreads; offset *= 2) {  // inclusive scan
    int before = static_cast<int>(threadIdx.x) >= offset ? sums[threadIdx.x - offset] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  if (state.settled) return;
  if (first && (state.wanted <= 0 || sums[kThreads - 1] <= state.wanted)) {
    // None: nothing is above the largest key. All: everything is above 0, or one of its ties.
    if (threadIdx.x == 0) {
      states[segment] = state.wanted <= 0 ? State{0xffffffffu, 0, 1} : State{0, 0x7fffffff, 1};
    }
    return;
  }
  int above = sums[threadIdx.x] - sum;
  if (above >= state.wanted || sums[threadIdx.x] < state.wanted) return;
  for (int j = 0; j < kOwn; ++j) {  // exactly one thread comes here
    if (above + own[j] >= state.wanted) {
      uint32_t digit =
          static_cast<uint32_t>(kBins - 1 - (static_cast<int>(threadIdx.x) * kOwn + j));
      states[segment] = {state.prefix | (digit << shift), state.wanted - above, 0};
      return;
    }
    above += own[j];
  }
}

// Block (chunk, segment): how many of the chunk are above the threshold, and equal to it.
template <typename Source>
__global__ void __launch_bounds__(kThreads)
    CountChosen(const __grid_constant__ Source source, const State* states, ChunkCount* counts) {
  __shared__ int buffer[kThreads / 32];
  int segment = blockIdx.y, begin = blockIdx.x * kChunk;
  int end = min(source.Count(segment), begin + kChunk);
  uint32_t threshold = states[segment].prefix;
  int above = 0, equal = 0;
  for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += kThreads) {
    uint32_t key;
    if (!source.Key(segment, i, &key)) continue;
    above += key > threshold;
    equal += key == threshold;
  }
  above = BlockSum(above, buffer);
  equal = BlockSum(equal, buffer);
  if (threadIdx.x == 0) counts[segment * gridDim.x + blockIdx.x] = {above, equal};
}

// Block (chunk, segment): writes the chosen of the chunk behind those of the chunks before it.
template <typename Source>
__global__ void __launch_bounds__(kThreads)
    WriteChosen(const __grid_constant__ Source source, const State* states,
                const ChunkCount* counts, int capacity, uint64_t* chosen, int32_t* chosen_counts) {
  __shared__ int buffer[kThreads / 32];
  __shared__ int warp_above[kThreads / 32], warp_equal[kThreads / 32];
  int segment = blockIdx.y, begin = blockIdx.x * kChunk;
  int end = min(source.Count(segment), begin + kChunk);
  State state = states[segment];
  int above = 0, equal = 0, all_above = 0, all_equal = 0;
  for (int c = threadIdx.x; c < static_cast<int>(gridDim.x); c += kThreads) {
    ChunkCount count = counts[segment * gridDim.x + c];
    all_above += count.above;
    all_equal += count.equal;
    if (c < static_cast<int>(blockIdx.x)) {
      above += count.above;
      equal += count.equal;
    }
  }
  above = BlockSum(above, buffer);
  equal = BlockSum(equal, buffer);
  if (blockIdx.x == 0) {
    all_above = BlockSum(all_above, buffer);
    all_equal = BlockSum(all_equal, buffer);
    if (threadIdx.x == 0) chosen_counts[segment] = all_above + min(all_equal, state.wanted);
  }
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned lower = (1u << lane) - 1;
  for (int base = begin; base < end; base += kThreads) {
    int i = base + static_cast<int>(threadIdx.x);
    uint32_t key = 0;
    bool candidate = i < end && source.Key(segment, i, &key);
    bool is_above = candidate && key > state.prefix;
    bool is_equal = candidate && key == state.prefix;
    unsigned above_mask = __ballot_sync(0xffffffffu, is_above);
    unsigned equal_mask = __ballot_sync(0xffffffffu, is_equal);
    __syncthreads();
    if (lane == 0) {
      warp_above[warp] = __popc(above_mask);
      warp_equal[warp] = __popc(equal_mask);
    }
    __syncthreads();
    int before_above = above + __popc(above_mask & lower);
    int before_equal = equal + __popc(equal_mask & lower);
    for (int w = 0; w < kThreads / 32; ++w) {
      if (w < warp) {
        before_above += warp_above[w];
        before_equal += warp_equal[w];
      }
      above += warp_above[w];
      equal += warp_equal[w];
    }
    if (is_above || (is_equal && before_equal < state.wanted)) {
      int place = before_above + min(before_equal, state.wanted);
      if (place < capacity) {
        chosen[static_cast<int64_t>(segment) * capacity + place] =
            MakeRankKey(key, source.Number(segment, i));
      }
    }
  }
}

}  // namespace select_detail

// Where Select works and what it gives. capacity: the largest Wanted() there is.
struct Selection {
  Selection(Scratch& scratch, int segments_, int largest_segment, int capacity_)
      : segments(segments_),
        chunks(largest_segment <= 0
                   ? 1
                   : (largest_segment + select_detail::kChunk - 1) / select_detail::kChunk),
        capacity(capacity_),
        states(scratch.Take<select_detail::State>(segments)),
        histograms(scratch.Take<int>(static_cast<int64_t>(segments) * select_detail::kBins)),
        chunk_counts(
            scratch.Take<select_detail::ChunkCount>(static_cast<int64_t>(segments) * chunks)),
        chosen(scratch.Take<uint64_t>(static_cast<int64_t>(segments) * capacity)),
        counts(scratch.Take<int32_t>(segments)) {}

  int segments, chunks, capacity;
  select_detail::State* states;
  int* histograms;
  select_detail::ChunkCount* chunk_counts;
  uint64_t* chosen;  // [segments, capacity] rank keys, the element ascending
  int32_t* counts;   // [segments]
};

template <typename Source>
void Select(const Source& source, const Selection& s, cudaStream_t stream) {
  using namespace select_detail;
  if (s.segments == 0) return;
  cudaMemsetAsync(s.histograms, 0, sizeof(int) * kBins * static_cast<size_t>(s.segments), stream);
  dim3 grid(static_cast<unsigned>(s.chunks), static_cast<unsigned>(s.segments));
  const int shifts[] = {21, 10, 0}, widths[] = {11, 11, 10};
  for (int pass = 0; pass < 3; ++pass) {
    CountDigits<<<grid, kThreads, 0, stream>>>(source, s.states, s.histograms, shifts[pass],
                                               widths[pass]);
    PickDigit<<<static_cast<unsigned>(s.segments), kThreads, 0, stream>>>(
        source, s.states, s.histograms, shifts[pass], widths[pass]);
  }
  CountChosen<<<grid, kThreads, 0, stream>>>(source, s.states, s.chunk_counts);
  WriteChosen<<<grid, kThreads, 0, stream>>>(source, s.states, s.chunk_counts, s.capacity, s.chosen,
                                             s.counts);
}

}  // namespace xp::kernels
