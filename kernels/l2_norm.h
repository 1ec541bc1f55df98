// Each pixel's channels scaled to unit length (SSD's conv4_3), and its gradient.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/column_plan.h"
#include "kernels/element_type.h"

namespace xp::kernels {

// y = scale * x / max(||x||, 1e-12); x [rows, channels], scale f32 [channels].
void L2Norm(const void* x, const float* scale, void* y, int64_t rows, int channels,
            ElementType type, cudaStream_t stream);

ColumnPlan PlanL2NormGrad(int64_t rows, int channels, ElementType type, int multiprocessors);
// Bytes of scratch, and how many counters (u32, 0 at first; they are 0 again after each run).
size_t L2NormGradScratch(const ColumnPlan& plan);
inline int L2NormGradCounters(const ColumnPlan& plan) { return plan.tiles; }
void L2NormGrad(const void* dy, const void* x, const float* scale, void* dx, float* dscale,
                const ColumnPlan& plan, void* scratch, unsigned* counters, ElementType type,
                cudaStream_t stream);

}  // namespace xp::kernels
