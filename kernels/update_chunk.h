// The trained segments of the flat buffers cut into chunks, a thread block each; the list lives in
// device memory from the creation of an update operation on.
#pragma once

#include <cstdint>

namespace xp::kernels {

inline constexpr int kUpdateChunk = 4096;  // elements

struct UpdateChunk {
  int64_t begin = 0;  // element of the flat buffers, a multiple of 8
  int32_t count = 0;  // 1 .. kUpdateChunk
  int32_t segment = 0;
  float lr_multiplier = 1, decay = 0;
  int64_t grad_begin = 0;    // where its gradient begins in Gradients::grad, a multiple of 8 ...
  int32_t compute_grad = 0;  // ... unless that is of the compute type, which begins at `begin`
  int32_t reserved = 0;
};

// Where gradients come from: `accumulated` where it isn't null; else `compute` (of the compute
// type) for chunks that say so, else `grad`.
struct Gradients {
  const float* grad = nullptr;
  const void* compute = nullptr;
  const float* accumulated = nullptr;
};

}  // namespace xp::kernels
