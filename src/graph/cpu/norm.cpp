#include "src/graph/cpu/norm.h"

#include <numeric>

#include "src/graph/cpu/parallel.h"

namespace xp::graph::cpu {

XP_SIMD_CLONES void NormRow(const float* __restrict x, const float* __restrict mean,
                            const float* __restrict scale, const float* __restrict bias,
                            int64_t rows, int64_t channels, float* __restrict y) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* xr = x + r * channels;
    float* yr = y + r * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) yr[c] = (xr[c] - mean[c]) * scale[c] + bias[c];
  }
}

XP_SIMD_CLONES void NormReluRow(const float* __restrict x, const float* __restrict mean,
                                const float* __restrict scale, const float* __restrict bias,
                                int64_t rows, int64_t channels, float* __restrict y) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* xr = x + r * channels;
    float* yr = y + r * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      const float v = (xr[c] - mean[c]) * scale[c] + bias[c];
      yr[c] = v < 0.0f ? 0.0f : v;
    }
  }
}

XP_SIMD_CLONES void AddRows(const float* __restrict x, int64_t n, float* __restrict sum) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

XP_SIMD_CLONES void AddRowsRelu(const float* __restrict x, int64_t n, float* __restrict y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float v = y[i] + x[i];
    y[i] = v < 0.0f ? 0.0f : v;
  }
}

void AddEvenPixels(const EvenPixels& even, int64_t begin, int64_t end, int64_t channels,
                   float* scratch, float* y) {
  const int64_t half_height = (even.height + 1) / 2, half_width = (even.width + 1) / 2;
  for (int64_t pixel = begin; pixel < end; ++pixel) {
    const int64_t row = pixel / even.width, at_x = pixel % even.width;
    const int64_t image = row / even.height, at_y = row % even.height;
    if (at_x % 2 != 0 || at_y % 2 != 0) continue;
    const int64_t from = (image * half_height + at_y / 2) * half_width + at_x / 2;
    AddRows(even.values.Floats(from * channels, channels, scratch), channels,
            y + (pixel - begin) * channels);
  }
}

// other[r, c] *= gate[image of row r, c]. `scratch`: a row.
void GateRows(const NormApply& args, int64_t begin, int64_t rows, int64_t channels, float* scratch,
              float* other) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t image = (begin + r) / args.gate_rows;
    const float* gate = args.gate.Floats(image * channels, channels, scratch);
    for (int64_t c = 0; c < channels; ++c) other[r * channels + c] *= gate[c];
  }
}

// Rows [begin, begin + rows), in four blocks of scratch.
void NormApplyBlock(const NormApply& args, int64_t begin, int64_t rows, int64_t channels,
                    int64_t block, float* scratch) {
  const int64_t at = begin * channels, n = rows * channels;
  float* y = args.y.Place(at, scratch);
  const NormBranch &first = args.first, &second = args.second;
  const bool relu_last = args.relu && args.residual;
  const bool relu_second = args.relu && !args.residual;
  if (first.x) {
    const float* x = first.x.Floats(at, n, scratch + block);
    (relu_second && !second.x ? NormReluRow : NormRow)(x, first.mean, first.scale, first.bias, rows,
                                                       channels, y);
  } else {
    std::fill(y, y + n, 0.0f);
  }
  if (second.x) {
    const float* x = second.x.Floats(at, n, scratch + block);
    float* other = scratch + 2 * block;
    NormRow(x, second.mean, second.scale, second.bias, rows, channels, other);
    if (args.gate) GateRows(args, begin, rows, channels, scratch + 3 * block, other);
    (relu_second ? AddRowsRelu : AddRows)(other, n, y);
  }
  if (args.residual) {
    const float* residual = args.residual.Floats(at, n, scratch + 3 * block);
    (relu_last ? AddRowsRelu : AddRows)(residual, n, y);
  }
  if (args.mask != nullptr) PackMask(y, n, args.mask + at / 8);
  args.y.Put(at, n, y);
}

int64_t BlockRows(int64_t channels) {
  if (channels == 0) return 1;
  // Whole bytes of the mask: a multiple of 8 elements.
  const int64_t unit = 8 / std::gcd<int64_t>(8, channels);
  return std::max<int64_t>(1, 2048 / (unit * channels)) * unit;
}

int64_t NormApplyFloats(int threads, const RowSplit& split) {
  return 4 * threads * BlockFloats(split.channels);
}

void RunNormApply(int threads, const RowSplit& split, const NormApply& args) {
  const int64_t channels = split.channels, step = BlockRows(channels);
  ParallelFor(threads, split.chunks, [&](int64_t chunk) {
    float* scratch = args.scratch + 4 * omp_get_thread_num() * step * channels;
    const int64_t last = split.Begin(chunk) + split.RowsOf(chunk);
    for (int64_t begin = split.Begin(chunk); begin < last; begin += step) {
      NormApplyBlock(args, begin, std::min(step, last - begin), channels, step * channels, scratch);
    }
  });
}

constexpr int64_t kSumBlocks = kMaskedBlocks + 1;  // and x

int64_t GradSumFloats(int threads, const RowSplit& split) {
  return 2 * split.chunks * split.channels + kSumBlocks * threads * BlockFloats(split.channels);
}

void RunNormGradSums(int threads, const RowSplit& split, const NormGradSums& args) {
  const int64_t channels = split.channels;
  float* sums = args.scratch;
  float* products = sums + split.chunks * channels;
  float* blocks = products + split.chunks * channels;
  ParallelFor(threads, split.chunks, [&](int64_t chunk) {
    float* sum = sums + chunk * channels;
    float* product = products + chunk * channels;
    std::fill(sum, sum + channels, 0.0f);
    std::fill(product, product + channels, 0.0f);
    float* block = blocks + kSumBlocks * omp_get_thread_num() * BlockFloats(channels);
    float* wide_x = block + kMaskedBlocks * BlockFloats(channels);
    ForMaskedBlocks(split, chunk, args.rows, block,
                    [&](int64_t begin, int64_t end, const float* g) {
                      const int64_t rows = end - begin;
                      if (args.x) {
                        const float* x = args.x.Floats(begin * channels, rows * channels, wide_x);
                        AddGradSums(g, x, args.mean, rows, channels, sum, product);
                      } else {
                        AddRowSums(g, rows, channels, sum);
                      }
                    });
  });
  AddPartials(threads, sums, split.chunks, channels, args.sum);
  if (args.x) AddPartials(threads, products, split.chunks, channels, args.product);
}

}  // namespace xp::graph::cpu
