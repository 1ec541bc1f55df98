// Squeeze-and-excitation folded into the batch norm before it (step_passes.h, ops.h's kSqueeze*):
// maps [images, pixels, channels], channels divisible by eight.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/element_type.h"

namespace xp::kernels {

struct SqueezeShape {
  int images = 0, pixels = 0, channels = 0;
  bool empty() const { return images == 0 || pixels == 0 || channels == 0; }
};

struct SqueezeStatisticsArgs {
  const void* x;
  const float *scale, *bias;
  const float *mean, *var;         // running statistics before ..
  float *mean_after, *var_after;   // .. and after; may be the same arrays
  float *save_mean, *save_invstd;  // [channels]
  float* image_mean;               // [images, channels], of x
  void* pooled;                    // [images, channels], of the normalised x
  float eps, momentum;
};
// Bytes of scratch, and how many counters (u32, 0 at first; they are 0 again after each run).
size_t SqueezeStatisticsScratch(const SqueezeShape& shape);
int SqueezeStatisticsCounters(const SqueezeShape& shape);
// Reads x once.
void SqueezeStatistics(const SqueezeStatisticsArgs& args, const SqueezeShape& shape, void* scratch,
                       unsigned* counters, ElementType type, cudaStream_t stream);

struct SqueezeSumsArgs {
  const void* dy[3];    // dy[1] and dy[2] may be null
  const uint8_t* mask;  // or null
  const void* x;
  const float *scale, *bias, *mean, *invstd;
  void* g;      // the sum of the dy, rounded, then masked; may be null
  float* sums;  // [2][images, channels]: of g, and of g * (x - mean)
  void* dgate;  // [images, channels]
};
void SqueezeSums(const SqueezeSumsArgs& args, const SqueezeShape& shape, ElementType type,
                 cudaStream_t stream);

struct SqueezeFactorsArgs {
  const float* sums;
  const void *gate, *dpooled;  // [images, channels]
  const float *image_mean, *scale, *mean, *invstd;
  float *dscale, *dbias;   // may be null
  float *slopes, *shifts;  // [images, channels]
  float* common;           // [channels]: dx = slope * g + (common * x + shift)
};
void SqueezeFactors(const SqueezeFactorsArgs& args, const SqueezeShape& shape, ElementType type,
                    cudaStream_t stream);

void SqueezeApply(const void* g, const void* x, const float* slopes, const float* shifts,
                  const float* common, void* dx, const SqueezeShape& shape, ElementType type,
                  cudaStream_t stream);

}  // namespace xp::kernels
