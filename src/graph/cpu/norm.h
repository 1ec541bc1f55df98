// What batch norm with batch statistics (batch_norm.cpp) and with fixed ones (affine.cpp) share:
// applying y = relu?(scale * (x - mean) + bias + residual), and the masked sums of the gradient.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/graph/cpu/channel_sums.h"
#include "src/graph/cpu/mask.h"

namespace xp::graph::cpu {

// y = relu?((x - mean) * scale + bias [+ residual]); scale includes 1 / standard deviation. With a
// mask, the bits of y > 0. Pieces run on `threads` threads.
struct NormApply {
  const float* x = nullptr;
  // A second branch, added to the first: optional, with `scratch` of threads * BlockFloats().
  const float *other_x = nullptr, *other_mean = nullptr, *other_scale = nullptr,
              *other_bias = nullptr;
  float* scratch = nullptr;
  // Factors [images, C] of that branch, of `gate_rows` rows each; optional, and then x may be null.
  const float* other_gate = nullptr;
  int64_t gate_rows = 1;
  const float* residual = nullptr;                                 // optional
  const float *mean = nullptr, *scale = nullptr, *bias = nullptr;  // [C]
  bool relu = false;
  float* y = nullptr;
  uint8_t* mask = nullptr;  // optional
};
void RunNormApply(int threads, const RowSplit& split, const NormApply& args);

// Calls body(begin, end, g) for blocks of rows of a chunk, small enough for the first-level cache:
// g points to the rows [begin, end) of dy as the gradient sees it, 0 where the mask's bit is 0.
// With `target` (dresidual) the masked rows are kept there, else in `scratch` (BlockFloats() of
// it).
struct MaskedRows {
  const float* dy = nullptr;
  const uint8_t* mask = nullptr;  // optional
  float* target = nullptr;        // optional
};
int64_t BlockRows(int64_t channels);
inline int64_t BlockFloats(int64_t channels) { return BlockRows(channels) * channels; }

template <typename Body>
void ForMaskedBlocks(const RowSplit& split, int64_t chunk, const MaskedRows& rows, float* scratch,
                     const Body& body) {
  const int64_t channels = split.channels, step = BlockRows(channels);
  const int64_t last = split.Begin(chunk) + split.RowsOf(chunk);
  for (int64_t begin = split.Begin(chunk); begin < last; begin += step) {
    const int64_t end = std::min(begin + step, last), at = begin * channels;
    const int64_t count = (end - begin) * channels;
    const float* g = rows.dy + at;
    if (rows.target != nullptr || rows.mask != nullptr) {
      float* out = rows.target != nullptr ? rows.target + at : scratch;
      if (rows.mask != nullptr) {
        ApplyMask(g, rows.mask + at / 8, count, out);
      } else {
        std::copy(g, g + count, out);
      }
      g = out;
    }
    body(begin, end, g);
  }
}

// sum[c] = sum of masked dy, product[c] = sum of masked dy * (x - mean[c]). Fills rows.target on
// the way. `scratch`: GradSumFloats() floats.
struct NormGradSums {
  MaskedRows rows;
  const float* x = nullptr;
  const float* mean = nullptr;               // [C]
  float *sum = nullptr, *product = nullptr;  // [C]
  float* scratch = nullptr;
};
int64_t GradSumFloats(int threads, const RowSplit& split);
void RunNormGradSums(int threads, const RowSplit& split, const NormGradSums& args);

}  // namespace xp::graph::cpu
