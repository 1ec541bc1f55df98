// Sorts segments of unique 64-bit keys, largest first, by counting for each how many are larger: no
// scratch, any length, one launch for all segments. Quadratic, which for the few thousand
// candidates of a detector is quicker than the passes of a radix sort.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace xp::kernels {

namespace rank_sort_detail {

constexpr int kThreads = 256;
constexpr int kTile = 1024;

template <typename Emit>
__global__ void __launch_bounds__(kThreads)
    RankKeys(const uint64_t* keys, const int32_t* counts, int capacity,
             const __grid_constant__ Emit emit) {
  __shared__ ulonglong2 tile[kTile / 2];
  int segment = blockIdx.y;
  int count = min(counts[segment], capacity);
  int begin = blockIdx.x * kThreads;
  if (begin >= count) return;
  const uint64_t* own = keys + static_cast<int64_t>(segment) * capacity;
  int i = begin + static_cast<int>(threadIdx.x);
  uint64_t key = i < count ? own[i] : ~uint64_t{0};
  int rank = 0;
  for (int base = 0; base < count; base += kTile) {
    auto* flat = reinterpret_cast<unsigned long long*>(tile);
    for (int j = threadIdx.x; j < kTile; j += kThreads) {
      flat[j] = base + j < count ? own[base + j] : 0;  // smaller than any key
    }
    __syncthreads();
    int pairs = (min(kTile, count - base) + 1) / 2;
#pragma unroll 8
    for (int j = 0; j < pairs; ++j) {
      ulonglong2 two = tile[j];
      rank += (two.x > key) + (two.y > key);
    }
    __syncthreads();
  }
  if (i < count) emit(segment, rank, key);
}

}  // namespace rank_sort_detail

// emit(segment, rank, key) is called once for every key, with its place in the order.
// keys [segments, capacity], counts [segments].
template <typename Emit>
void RankSort(const uint64_t* keys, const int32_t* counts, int segments, int capacity,
              const Emit& emit, cudaStream_t stream) {
  using namespace rank_sort_detail;
  if (segments == 0 || capacity == 0) return;
  dim3 grid(static_cast<unsigned>((capacity + kThreads - 1) / kThreads),
            static_cast<unsigned>(segments));
  RankKeys<<<grid, kThreads, 0, stream>>>(keys, counts, capacity, emit);
}

}  // namespace xp::kernels
