#include "src/graph/cpu/channel_sums.h"

#include <algorithm>

#include "src/graph/cpu/parallel.h"

namespace xp::graph::cpu {

RowSplit SplitRows(const Rows& shape) {
  RowSplit split;
  split.rows = shape.rows;
  split.channels = shape.channels;
  if (shape.elements() == 0) return split;
  // A chunk fits the second-level cache; there are enough of them for many cores; sums are short
  // enough for fp32.
  int64_t rows = std::min<int64_t>({65536 / shape.channels, (shape.rows + 63) / 64, 1024});
  rows = std::max<int64_t>(rows, 32);
  split.rows_per_chunk = (rows + 7) / 8 * 8;
  split.chunks = (shape.rows + split.rows_per_chunk - 1) / split.rows_per_chunk;
  return split;
}

XP_SIMD_CLONES void AddRowSums(const float* __restrict x, int64_t rows, int64_t channels,
                               float* __restrict sum) {
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2) {  // as AddGradSums
    const float *x0 = x + r * channels, *x1 = x0 + channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) sum[c] += x0[c] + x1[c];
  }
  for (; r < rows; ++r) {
    const float* x0 = x + r * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) sum[c] += x0[c];
  }
}

XP_SIMD_CLONES void AddShiftedMoments(const float* __restrict x, const float* __restrict shift,
                                      int64_t rows, int64_t channels, float* __restrict sum,
                                      float* __restrict square) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float *x0 = x + r * channels, *x1 = x0 + channels, *x2 = x1 + channels,
                *x3 = x2 + channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      const float d0 = x0[c] - shift[c], d1 = x1[c] - shift[c], d2 = x2[c] - shift[c],
                  d3 = x3[c] - shift[c];
      sum[c] += (d0 + d1) + (d2 + d3);
      square[c] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
    }
  }
  for (; r < rows; ++r) {
    const float* x0 = x + r * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      const float d = x0[c] - shift[c];
      sum[c] += d;
      square[c] += d * d;
    }
  }
}

XP_SIMD_CLONES void AddGradSums(const float* __restrict dy, const float* __restrict x,
                                const float* __restrict mean, int64_t rows, int64_t channels,
                                float* __restrict sum, float* __restrict product) {
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2) {
    const float *x0 = x + r * channels, *x1 = x0 + channels;
    const float *g0 = dy + r * channels, *g1 = g0 + channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      sum[c] += g0[c] + g1[c];
      product[c] += g0[c] * (x0[c] - mean[c]) + g1[c] * (x1[c] - mean[c]);
    }
  }
  for (; r < rows; ++r) {
    const float *x0 = x + r * channels, *g0 = dy + r * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      sum[c] += g0[c];
      product[c] += g0[c] * (x0[c] - mean[c]);
    }
  }
}

void AddPartials(int threads, const float* partial, int64_t chunks, int64_t channels,
                 float* result) {
  constexpr int64_t kBlock = 64;
  ParallelRanges(threads, channels, kBlock, [&](int64_t begin, int64_t end) {
    double total[kBlock] = {};
    for (int64_t i = 0; i < chunks; ++i) {
      const float* row = partial + i * channels;
      for (int64_t c = begin; c < end; ++c) total[c - begin] += static_cast<double>(row[c]);
    }
    for (int64_t c = begin; c < end; ++c) result[c] = static_cast<float>(total[c - begin]);
  });
}

}  // namespace xp::graph::cpu
