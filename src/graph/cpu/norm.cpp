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

XP_SIMD_CLONES void AddResidual(const float* __restrict residual, int64_t n, float* __restrict y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += residual[i];
}

XP_SIMD_CLONES void AddResidualRelu(const float* __restrict residual, int64_t n,
                                    float* __restrict y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float v = y[i] + residual[i];
    y[i] = v < 0.0f ? 0.0f : v;
  }
}

int64_t BlockRows(int64_t channels) {
  if (channels == 0) return 1;
  // Whole bytes of the mask: a multiple of 8 elements.
  const int64_t unit = 8 / std::gcd<int64_t>(8, channels);
  return std::max<int64_t>(1, 2048 / (unit * channels)) * unit;
}

void RunNormApply(int threads, const RowSplit& split, const NormApply& args) {
  const int64_t channels = split.channels, step = BlockRows(channels);
  ParallelFor(threads, split.chunks, [&](int64_t chunk) {
    const int64_t last = split.Begin(chunk) + split.RowsOf(chunk);
    for (int64_t begin = split.Begin(chunk); begin < last; begin += step) {
      const int64_t rows = std::min(step, last - begin), at = begin * channels;
      float* y = args.y + at;
      if (args.other_x != nullptr) {
        float* other = args.scratch + omp_get_thread_num() * BlockFloats(channels);
        NormRow(args.other_x + at, args.other_mean, args.other_scale, args.other_bias, rows,
                channels, other);
        for (int64_t r = 0; args.other_gate != nullptr && r < rows; ++r) {
          const float* gate = args.other_gate + (begin + r) / args.gate_rows * channels;
          for (int64_t c = 0; c < channels; ++c) other[r * channels + c] *= gate[c];
        }
        if (args.x != nullptr) {
          NormRow(args.x + at, args.mean, args.scale, args.bias, rows, channels, y);
        } else {
          std::fill(y, y + rows * channels, 0.0f);
        }
        const bool relu = args.relu && args.residual == nullptr;
        (relu ? AddResidualRelu : AddResidual)(other, rows * channels, y);
      } else if (args.relu && args.residual == nullptr) {
        NormReluRow(args.x + at, args.mean, args.scale, args.bias, rows, channels, y);
      } else {
        NormRow(args.x + at, args.mean, args.scale, args.bias, rows, channels, y);
      }
      if (args.residual != nullptr) {
        (args.relu ? AddResidualRelu : AddResidual)(args.residual + at, rows * channels, y);
      }
      if (args.mask != nullptr) PackMask(y, rows * channels, args.mask + at / 8);
    }
  });
}

int64_t GradSumFloats(int threads, const RowSplit& split) {
  return 2 * split.chunks * split.channels + threads * BlockFloats(split.channels);
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
    float* block = blocks + omp_get_thread_num() * BlockFloats(channels);
    ForMaskedBlocks(
        split, chunk, args.rows, block, [&](int64_t begin, int64_t end, const float* g) {
          AddGradSums(g, args.x + begin * channels, args.mean, end - begin, channels, sum, product);
        });
  });
  AddPartials(threads, sums, split.chunks, channels, args.sum);
  AddPartials(threads, products, split.chunks, channels, args.product);
}

}  // namespace xp::graph::cpu
