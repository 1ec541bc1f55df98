// SGD, LARS and Adam over all trained segments in one launch. All leave everything as it is when
// the factor is 0 (a gradient that isn't finite): decided on the device, the host never waits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/element_type.h"
#include "kernels/update_chunk.h"

namespace xp::kernels {

struct UpdateCommon {
  Gradients gradients;
  const float* lr;      // [1]
  const float* factor;  // [1] or null
  float max_value;      // 0: gradients aren't clipped by value
  float* param;
  void* param_compute;  // the parameters in the compute type, or null
};

struct SgdArgs {
  UpdateCommon common;
  float* momentum_buffer;
  float momentum;
  bool nesterov;
  const float* rates;  // a segment's local rate (LARS), or null
};
// Moves the gradients, 2 times parameters and momentum, and the compute copy.
void Sgd(const SgdArgs& args, const UpdateChunk* chunks, int count, ElementType compute,
         cudaStream_t stream);

struct SegmentChunks {
  int32_t first = 0, count = 0;
  float decay = 0;
};
inline size_t LarsScratch(int chunks, int segments) {
  return static_cast<size_t>(chunks) * 2 * sizeof(double) +
         static_cast<size_t>(segments) * sizeof(float);
}
// Norms of each segment, its rate trust * ||p|| / (||g|| + decay * ||p||), then Sgd with it.
void Lars(const SgdArgs& args, float trust, const UpdateChunk* chunks, int count,
          const SegmentChunks* segments, int segment_count, void* scratch, ElementType compute,
          cudaStream_t stream);

struct AdamArgs {
  UpdateCommon common;
  float *first, *second;  // the moments
  float* step;            // [1], applied steps
  float beta1, beta2, eps;
  bool decoupled;  // AdamW
};
inline constexpr size_t kAdamScratch = 2 * sizeof(float);
void Adam(const AdamArgs& args, const UpdateChunk* chunks, int count, void* scratch,
          ElementType compute, cudaStream_t stream);

}  // namespace xp::kernels
