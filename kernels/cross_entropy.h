// Softmax cross-entropy with label smoothing: loss, gradient and hits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/element_type.h"

namespace xp::kernels {

struct CrossEntropyArgs {
  const void* logits;       // [rows, classes]
  const int32_t* labels;    // [rows]
  const float* loss_scale;  // [1] or null: what dlogits are multiplied by
  float* loss;              // [1]: mean over the rows
  void* dlogits;            // or null
  int32_t* correct;         // [2]: rows whose label is the best, among the best five; or null
  float smoothing;
};

inline size_t CrossEntropyScratch(int rows) {
  return static_cast<size_t>(rows) * (sizeof(float) + sizeof(int32_t));
}
// `counter`: u32, 0 at first; it is 0 again afterwards.
void SoftmaxCrossEntropy(const CrossEntropyArgs& args, int rows, int classes, void* scratch,
                         unsigned* counter, ElementType type, cudaStream_t stream);

}  // namespace xp::kernels
