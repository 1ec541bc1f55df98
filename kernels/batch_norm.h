// Batch normalisation with the batch's statistics, the residual's addition and the ReLU after it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/column_plan.h"
#include "kernels/element_type.h"

namespace xp::kernels {

struct BatchNormArgs {
  const void* x;         // [rows, channels]
  const void* residual;  // the same shape, or null
  const float *scale, *bias;
  const float *mean, *var;        // running statistics before ..
  float *mean_after, *var_after;  // .. and after; may be the same arrays
  void* y;                        // null: the statistics only
  float *save_mean, *save_invstd;
  uint8_t* mask;  // or null
  float eps, momentum;
  bool relu;
};

ColumnPlan PlanBatchNorm(int64_t rows, int channels, ElementType type, int multiprocessors);
// Bytes of scratch, and how many counters (u32, 0 at first; they are 0 again after each run).
size_t BatchNormScratch(const ColumnPlan& plan);
inline int BatchNormCounters(const ColumnPlan& plan) { return plan.tiles; }

void BatchNorm(const BatchNormArgs& args, const ColumnPlan& plan, void* scratch, unsigned* counters,
               ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
