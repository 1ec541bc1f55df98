// Batch norm, ReLU and the max pool after them as one pass, and their gradient: the network's
// largest map is neither written nor read between them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/column_plan.h"
#include "kernels/element_type.h"
#include "kernels/map_shape.h"

namespace xp::kernels {

// For windows of 3 x 3, stride 2, padding 1 and channels divisible by eight.
struct NormPoolArgs {
  const void* x;                              // `in`
  const float *scale, *bias, *mean, *invstd;  // [C]
  void* y;                                    // `out`
  uint8_t* argmax;                            // 255 where y isn't > 0
};
void NormPool(const NormPoolArgs& args, const MapShape& in, const MapShape& out, ElementType type,
              cudaStream_t stream);

struct NormPoolGradArgs {
  const void* dy;         // `out`
  const uint8_t* argmax;  // `out`
  const void* x;          // `in`
  const float *scale, *mean, *invstd;
  float *dbias, *dscale;  // [C], may be null
  float* coefficients;    // [3][C], of dx = c0 * g + (c1 * x + c2); written by the sums
  void* dx;               // `in`; written by the second pass
};
ColumnPlan PlanNormPoolSums(const MapShape& in, int multiprocessors);
inline size_t NormPoolSumsScratch(const ColumnPlan& plan) { return plan.PartialBytes(2); }
inline int NormPoolSumsCounters(const ColumnPlan& plan) { return plan.tiles; }
void NormPoolSums(const NormPoolGradArgs& args, const MapShape& in, const MapShape& out,
                  const ColumnPlan& plan, void* scratch, unsigned* counters, ElementType type,
                  cudaStream_t stream);
void NormPoolGrad(const NormPoolGradArgs& args, const MapShape& in, const MapShape& out,
                  ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
