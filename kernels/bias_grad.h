// The gradient of a bias: the sum of dy over all but its last dimension.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/column_plan.h"
#include "kernels/element_type.h"

namespace xp::kernels {

ColumnPlan PlanBiasGrad(int64_t rows, int channels, ElementType type, int multiprocessors);
// Bytes of scratch, and how many counters (u32, 0 at first; they are 0 again after each run).
inline size_t BiasGradScratch(const ColumnPlan& plan) { return plan.PartialBytes(1); }
inline int BiasGradCounters(const ColumnPlan& plan) { return plan.tiles; }

// db f32 [channels] = sum of dy [rows, channels] over rows; the plan fixes the order of additions.
void BiasGrad(const void* dy, float* db, const ColumnPlan& plan, void* scratch, unsigned* counters,
              ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
