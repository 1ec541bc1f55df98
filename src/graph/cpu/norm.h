// What batch norm with batch statistics (batch_norm.cpp) and with fixed ones (affine.cpp) share:
// applying y = relu?(scale * (x - mean) + bias + residual), and the masked sums of the gradient.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/graph/cpu/channel_sums.h"
#include "src/graph/cpu/mask.h"
#include "src/graph/cpu/values.h"

namespace xp::graph::cpu {

// Rows that are worked on at once: with their operands small enough for the first-level cache, and
// whole bytes of the mask.
int64_t BlockRows(int64_t channels);
inline int64_t BlockFloats(int64_t channels) { return BlockRows(channels) * channels; }

// Running statistics, [C] each, before and after a batch. `unbiased` is the batch's variance over
// n - 1 values (0 for a single one).
struct RunningMoments {
  const float *mean = nullptr, *variance = nullptr;
  float *mean_after = nullptr, *variance_after = nullptr;

  void Update(int64_t c, double momentum, double batch_mean, double unbiased) const {
    mean_after[c] =
        static_cast<float>((1 - momentum) * static_cast<double>(mean[c]) + momentum * batch_mean);
    variance_after[c] =
        static_cast<float>((1 - momentum) * static_cast<double>(variance[c]) + momentum * unbiased);
  }
};

// (x - mean) * scale + bias, where scale includes 1 / standard deviation; all [C].
struct NormBranch {
  InValues x;
  const float *mean = nullptr, *scale = nullptr, *bias = nullptr;
};

// y = relu?(first [+ gate * second] [+ residual]). With a mask, the bits of y > 0.
struct NormApply {
  NormBranch first, second;  // without a first one it counts as 0
  // Factors [images, C] of the second, of `gate_rows` rows each; optional.
  InValues gate;
  int64_t gate_rows = 1;
  InValues residual;  // optional
  bool relu = false;
  OutValues y;
  uint8_t* mask = nullptr;   // optional
  float* scratch = nullptr;  // NormApplyFloats() of it
};
int64_t NormApplyFloats(int threads, const RowSplit& split);
void RunNormApply(int threads, const RowSplit& split, const NormApply& args);

// A map [N, ceil(H/2), ceil(W/2), C] that is one [N, H, W, C], 0 but in even rows and columns.
struct EvenPixels {
  InValues values;
  int64_t height = 1, width = 1;  // of the whole map
};
// Adds rows [begin, end) of the whole map to y. `scratch`: a row.
void AddEvenPixels(const EvenPixels& even, int64_t begin, int64_t end, int64_t channels,
                   float* scratch, float* y);

// The gradient that flows into a norm: the sum of the dys and of `even`, 0 where the mask's bit is
// 0.
struct MaskedRows {
  std::array<InValues, 3> dy;
  const uint8_t* mask = nullptr;  // optional
  OutValues target;               // optional: where the result is kept (dresidual)
  EvenPixels even = {};           // optional
};
// Calls body(begin, end, g) for blocks of rows of a chunk, g being the rows [begin, end) of that
// gradient. `scratch`: kMaskedBlocks * BlockFloats() of it.
inline constexpr int64_t kMaskedBlocks = 2;
void AddRows(const float* x, int64_t n, float* sum);

template <typename Body>
void ForMaskedBlocks(const RowSplit& split, int64_t chunk, const MaskedRows& rows, float* scratch,
                     const Body& body) {
  const int64_t channels = split.channels, step = BlockRows(channels);
  const int64_t last = split.Begin(chunk) + split.RowsOf(chunk);
  float* own = scratch + step * channels;
  for (int64_t begin = split.Begin(chunk); begin < last; begin += step) {
    const int64_t end = std::min(begin + step, last), at = begin * channels;
    const int64_t count = (end - begin) * channels;
    const float* g = rows.dy[0].Floats(at, count, scratch);
    const bool sum = rows.dy[1] || rows.even.values;
    if (sum || rows.mask != nullptr || rows.target) {
      float* out = rows.target ? rows.target.Place(at, own) : own;
      if (sum || rows.mask == nullptr) {
        std::copy(g, g + count, out);
        for (size_t i = 1; i < rows.dy.size() && rows.dy[i]; ++i) {
          AddRows(rows.dy[i].Floats(at, count, scratch), count, out);
        }
        if (rows.even.values) AddEvenPixels(rows.even, begin, end, channels, scratch, out);
        g = out;
      }
      if (rows.mask != nullptr) ApplyMask(g, rows.mask + at / 8, count, out);
      if (rows.target) rows.target.Put(at, count, out);
      g = out;
    }
    body(begin, end, g);
  }
}

// sum[c] = sum of masked dy, product[c] = sum of masked dy * (x - mean[c]). Fills rows.target on
// the way. Without x the sum only. `scratch`: GradSumFloats() floats.
struct NormGradSums {
  MaskedRows rows;
  InValues x;
  const float* mean = nullptr;               // [C]
  float *sum = nullptr, *product = nullptr;  // [C]
  float* scratch = nullptr;
};
int64_t GradSumFloats(int threads, const RowSplit& split);
void RunNormGradSums(int threads, const RowSplit& split, const NormGradSums& args);

}  // namespace xp::graph::cpu
