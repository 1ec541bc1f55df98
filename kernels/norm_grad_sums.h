// The first pass of batch norm's gradient with the sum of the gradients that flow in, for up to two
// branches that were added.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/column_plan.h"
#include "kernels/element_type.h"
#include "kernels/even_pixels.h"

namespace xp::kernels {

struct NormGradBranch {
  const void* x = nullptr;  // [rows, channels]
  const float *scale = nullptr, *mean = nullptr, *invstd = nullptr;
  float *dscale = nullptr, *coefficients = nullptr;  // [channels], [3][channels]; may be null
};

struct NormGradSumsArgs {
  const void* dy[3] = {};         // [rows, channels]; dy[1] and dy[2] may be null
  EvenPixels even;                // added after them, instead of dy[2]; may have no values
  const uint8_t* mask = nullptr;  // or null
  void* g = nullptr;              // the sum of the dy, rounded, then masked
  float* dbias[2] = {};           // the sum of g, where wanted
  NormGradBranch branch[2];       // `branches` of them
  int branches = 0;
};

ColumnPlan PlanNormGradSums(int64_t rows, int channels, ElementType type, int multiprocessors);
// Bytes of scratch, and how many counters (u32, 0 at first; they are 0 again after each run).
size_t NormGradSumsScratch(const ColumnPlan& plan, int branches);
inline int NormGradSumsCounters(const ColumnPlan& plan) { return plan.tiles; }

// Moves as many times the elements as there are dy and branches, and once for g; a quarter for
// even.
void NormGradSums(const NormGradSumsArgs& args, const ColumnPlan& plan, void* scratch,
                  unsigned* counters, ElementType type, cudaStream_t stream);

// dx = c[0] * g + (c[1] * x + c[2])
void NormGradApply(const void* g, const void* x, const float* coefficients, void* dx, int64_t rows,
                   int channels, ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
