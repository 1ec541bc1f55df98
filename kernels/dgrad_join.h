// The data gradient of a 1x1 convolution, the sum with what else flows in, the ReLU's mask and the
// sum a channel, at once: the gradient between two residual blocks is written once and not read.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/column_plan.h"
#include "kernels/element_type.h"
#include "kernels/even_pixels.h"

namespace xp::kernels {

// Columns (the convolution's input channels) by 128, depth (its output channels) by 32, two of them
// or more.
inline constexpr int kDgradJoinColumns = 128, kDgradJoinDepth = 32;

// T is bf16, or fp32 whose products are those of tf32.
struct DgradJoinArgs {
  const void* dy;       // T [rows, depth]
  const void* w;        // T [depth, columns]
  const void* more[2];  // T [rows, columns], what else flows in; the second may be null
  EvenPixels even;      // T, where it has values instead of more[0], which is null
  const uint8_t* mask;  // or null
  void* g;              // T [rows, columns]: rounded once, then masked
  float* dbias[2];      // the sum of g over its rows; may be null
  int64_t rows;
  int columns, depth;
};

struct DgradJoinPlan {
  int tiles = 0;      // of rows
  int parts = 1;      // blocks a tile of columns
  bool deep = false;  // more is copied ahead
  ColumnPlan sums;    // over the parts
};
// `shared_memory`: the most bytes that a block may have, at least 96 KiB.
DgradJoinPlan PlanDgradJoin(int64_t rows, int columns, ElementType type, int multiprocessors,
                            size_t shared_memory);
// Bytes of scratch, and how many counters (u32, 0 at first; they are 0 again after each run).
size_t DgradJoinScratch(const DgradJoinPlan& plan);
inline int DgradJoinCounters(const DgradJoinPlan& plan) { return plan.sums.tiles; }

// For devices of compute capability 8.0 and newer; earlier ones do nothing (the launcher's caller
// must not ask them).
void DgradJoin(const DgradJoinArgs& args, const DgradJoinPlan& plan, void* scratch,
               unsigned* counters, ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
