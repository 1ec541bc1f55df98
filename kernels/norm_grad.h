// Gradients of batch normalisation and of normalisation with fixed statistics.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/column_plan.h"
#include "kernels/element_type.h"

namespace xp::kernels {

struct NormGradArgs {
  const void* dy;       // [rows, channels]
  const void* x;        // the same shape; may be null for AffineGrad without dscale
  const uint8_t* mask;  // or null: bit 0 makes an element of dy count as 0
  const float *scale, *mean;
  const float* spread;  // BatchNormGrad: 1 / standard deviation; AffineGrad: the variance
  float eps;            // AffineGrad only
  void* dx;             // any of the outputs may be null
  float *dscale, *dbias;
  void* dresidual;  // the masked dy
};

ColumnPlan PlanNormGrad(int64_t rows, int channels, ElementType type, int multiprocessors);
// Bytes of scratch, and how many counters (u32, 0 at first; they are 0 again after each run).
size_t NormGradScratch(const ColumnPlan& plan);
inline int NormGradCounters(const ColumnPlan& plan) { return plan.tiles; }

void BatchNormGrad(const NormGradArgs& args, const ColumnPlan& plan, void* scratch,
                   unsigned* counters, ElementType type, cudaStream_t stream);
void AffineGrad(const NormGradArgs& args, const ColumnPlan& plan, void* scratch, unsigned* counters,
                ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
