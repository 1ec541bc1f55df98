// What batch norm with batch statistics (batch_norm.cpp) and with fixed ones (affine.cpp) share:
// applying y = relu?(scale * (x - mean) + bias + residual), and the masked sums of the gradient.
#pragma once

#include <cstdint>

#include "src/graph/cpu/channel_sums.h"

namespace xp::graph::cpu {

// y = relu?((x - mean) * scale + bias [+ residual]); scale includes 1 / standard deviation. With a
// mask, the bits of y > 0. Pieces run on `threads` threads.
struct NormApply {
  const float* x = nullptr;
  const float* residual = nullptr;  // optional
  const float *mean = nullptr, *scale = nullptr, *bias = nullptr;  // [C]
  bool relu = false;
  float* y = nullptr;
  uint8_t* mask = nullptr;  // optional
};
void RunNormApply(int threads, const RowSplit& split, const NormApply& args);

// dy as the gradient sees it: with a mask, 0 where the bit is 0. Rows come in blocks that fit the
// first-level cache; Block() gives a pointer to the masked values.
class MaskedRows {
 public:
  // `target`: where masked rows are to be kept (dresidual), or null; then `scratch` (ScratchFloats()
  // of it a thread) takes them block by block.
  MaskedRows(const RowSplit& split, const float* dy, const uint8_t* mask, float* target,
             float* scratch);

  static int64_t BlockRows(int64_t channels);
  static int64_t ScratchFloats(int64_t channels);

  // Rows [begin, end) inside one block that begins at a multiple of BlockRows from a chunk's begin.
  const float* Block(int64_t begin, int64_t end) const;

 private:
  int64_t channels_;
  const float* dy_;
  const uint8_t* mask_;
  float* target_;
  float* scratch_;
};

// sum[c] = sum of masked dy, product[c] = sum of masked dy * (x - mean); x may be null, then only
// the first. Writes dresidual on the way. `partial`: GradSumFloats() of scratch.
struct NormGradSums {
  const float* dy = nullptr;
  const float* x = nullptr;          // null: no products
  const uint8_t* mask = nullptr;     // optional
  const float* mean = nullptr;       // [C]
  float* dresidual = nullptr;        // optional
  float *sum = nullptr, *product = nullptr;  // [C]
  float* scratch = nullptr;
};
int64_t GradSumFloats(int threads, const RowSplit& split);
void RunNormGradSums(int threads, const RowSplit& split, const NormGradSums& args);

}  // namespace xp::graph::cpu
