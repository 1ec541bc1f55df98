// The end of a sum over rows (column_plan.h): within a block by a tree over its row lanes, then
// over the parts by the block that finishes last. Which block that is doesn't matter: it adds the
// parts in their order.
#pragma once

#include "kernels/column_plan.h"
#include "kernels/octet.cuh"

namespace xp::kernels {

// The plan as a kernel sees it; a block is dim3(lanes, row_lanes), the grid dim3(tiles, parts).
struct Columns {
  int64_t rows;
  int channels;
  int parts;
};

inline Columns AsColumns(const ColumnPlan& plan) { return {plan.rows, plan.channels, plan.parts}; }
inline dim3 ColumnBlock(const ColumnPlan& plan) {
  return dim3(static_cast<unsigned>(plan.lanes), static_cast<unsigned>(plan.row_lanes));
}
inline dim3 ColumnGrid(const ColumnPlan& plan) {
  return dim3(static_cast<unsigned>(plan.tiles), static_cast<unsigned>(plan.parts));
}

// Channels that a thread adds up in AddParts.
template <int V>
inline constexpr int kPartChannels = V == 1 ? 1 : 4;

// Floats of shared memory for kSums sums a channel: what AddParts needs, and AddRowLanes too.
template <int V, int kSums>
inline constexpr int kPartScratch = kSums* kColumnThreads* kPartChannels<V>;
template <int V, int kSums>
inline constexpr int kColumnScratch = kSums* kColumnThreads* V;

// First channel of this thread.
template <int V>
__device__ inline int ThreadChannel() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * V;
}

// How many rows a part has.
struct PartRows {
  float whole, more;  // of a part with the fewer and with the greater number of whole spans
  float missing;      // rows that the last span lacks
  int greater;        // parts below this have the greater number
  int last;           // the part with the last span

  __device__ PartRows(const Columns& m, int span) {
    const int64_t spans = (m.rows + span - 1) / span, each = spans / m.parts;
    greater = static_cast<int>(spans % m.parts);
    last = static_cast<int>((spans - 1) % m.parts);
    whole = static_cast<float>(each * span);
    more = static_cast<float>((each + 1) * span);
    missing = static_cast<float>(spans * span - m.rows);
  }
  __device__ float operator()(int part) const {
    return (part < greater ? more : whole) - (part == last ? missing : 0.0f);
  }
};

// Calls body(first row of this thread in the span, are all its rows inside?) for the spans of this
// block's part.
template <int kUnroll, typename Body>
__device__ inline void ForSpans(const Columns& m, Body&& body) {
  const int64_t span = static_cast<int64_t>(blockDim.y) * kUnroll;
  for (int64_t begin = blockIdx.y * span; begin < m.rows; begin += m.parts * span) {
    body(begin + threadIdx.y, begin + span <= m.rows);
  }
}

// Reads this thread's rows of the block's part, kRows in flight where the span is whole, and adds
// them in their order. load(row, at) -> what add(value, at) takes, `at` being the row's element of
// `channel`, this thread's first.
template <int kRows, typename Load, typename Add>
__device__ inline void ForRows(const Columns& m, int channel, Load&& load, Add&& add) {
  const int64_t stride = static_cast<int64_t>(blockDim.y) * m.channels;
  ForSpans<kRows>(m, [&](int64_t row, bool whole) {
    int64_t at = row * m.channels + channel;
    if (whole) {
      decltype(load(row, at)) values[kRows];
#pragma unroll
      for (int u = 0; u < kRows; ++u) {
        values[u] = load(row + u * static_cast<int>(blockDim.y), at + u * stride);
      }
#pragma unroll
      for (int u = 0; u < kRows; ++u) add(values[u], at + u * stride);
    } else {
      for (; row < m.rows; row += blockDim.y, at += stride) add(load(row, at), at);
    }
  });
}

// Rows that a thread keeps in flight where it reads one tensor.
template <typename T, int V>
inline constexpr int kRowsInFlight = V == 1 || sizeof(T) == 2 ? 4 : 2;

// sum[] of the block's row lanes, added up in those with threadIdx.y == 0.
template <int kCount>
__device__ inline void AddRowLanes(float (&sum)[kCount], float* scratch) {
  const unsigned threads = blockDim.x * blockDim.y;
  const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
  for (unsigned n = blockDim.y; n > 1;) {
    const unsigned half = (n + 1) / 2;
    if (threadIdx.y >= half && threadIdx.y < n) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) scratch[k * threads + at] = sum[k];
    }
    __syncthreads();
    if (threadIdx.y < n - half) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) sum[k] += scratch[k * threads + at + half * blockDim.x];
    }
    n = half;
  }
  __syncthreads();
}

// Is this the last block of its tile to come here? Its partial sums must be written by then.
// `arrivals`: a counter a tile, 0 before and after.
__device__ inline bool LastOfTile(unsigned* arrivals, int parts) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    last = atomicAdd(&arrivals[blockIdx.x], 1u) == static_cast<unsigned>(parts - 1);
    if (last) arrivals[blockIdx.x] = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// partial: [tile][part][kSums][width]. Written by the row lane 0 of a block.
template <int V, int kSums>
__device__ inline void WritePartial(float* partial, int parts, const float (&sum)[kSums * V]) {
  if (threadIdx.y != 0) return;
  const int width = static_cast<int>(blockDim.x) * V;
  float* to = partial + (static_cast<int64_t>(blockIdx.x) * parts + blockIdx.y) * kSums * width +
              threadIdx.x * V;
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
#pragma unroll
    for (int v = 0; v < V; ++v) to[k * width + v] = sum[k * V + v];
  }
}

template <int W>
struct alignas(W * 4) FloatPack {
  float v[W];
};

// In the last block of a tile: total[k] of a channel over all parts, in a fixed order;
// body(channel, total) is then called by one thread a channel. merge(part, values[kSums],
// total[kSums]) adds a part (kSums values of one channel) to a running total.
template <int V, int kSums, typename Merge, typename Body>
__device__ inline void AddParts(const float* partial, const Columns& m, float* scratch,
                                const Merge& merge, const Body& body) {
  constexpr int W = kPartChannels<V>;
  const int width = static_cast<int>(blockDim.x) * V, packs = width / W;
  const int threads = static_cast<int>(blockDim.x * blockDim.y);
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int groups = threads / packs, group = thread / packs, pack = thread % packs;
  const float* from = partial + static_cast<int64_t>(blockIdx.x) * m.parts * kSums * width;
  float total[W][kSums] = {};
  if (group < groups) {
#pragma unroll 4
    for (int part = group; part < m.parts; part += groups) {
      FloatPack<W> values[kSums];
#pragma unroll
      for (int k = 0; k < kSums; ++k) {
        values[k] = *reinterpret_cast<const FloatPack<W>*>(
            from + (static_cast<int64_t>(part) * kSums + k) * width + pack * W);
      }
#pragma unroll
      for (int w = 0; w < W; ++w) {
        float one[kSums];
#pragma unroll
        for (int k = 0; k < kSums; ++k) one[k] = values[k].v[w];
        merge(part, pack * W + w, one, total[w]);
      }
    }
#pragma unroll
    for (int w = 0; w < W; ++w) {
#pragma unroll
      for (int k = 0; k < kSums; ++k)
        scratch[(group * kSums + k) * width + pack * W + w] = total[w][k];
    }
  }
  __syncthreads();
  for (int c = thread; c < width; c += threads) {
    const int channel = static_cast<int>(blockIdx.x) * width + c;
    if (channel >= m.channels) continue;
    float all[kSums] = {};
    for (int g = 0; g < groups; ++g) {
#pragma unroll
      for (int k = 0; k < kSums; ++k) all[k] += scratch[(g * kSums + k) * width + c];
    }
    body(channel, all);
  }
}

}  // namespace xp::kernels
