// Reading an operation's operands when its kernel is created.
#pragma once

#include <stdexcept>

#include "exp/graph/graph.h"
#include "kernels/even_pixels.h"
#include "kernels/map_shape.h"
#include "src/graph/cuda/element_type.h"

namespace xp::graph::cuda {

inline bool HasInput(const Op& op, size_t i) {
  return i < op.inputs.size() && op.inputs[i] != kNoTensor;
}
inline bool HasOutput(const Op& op, size_t i) {
  return i < op.outputs.size() && op.outputs[i] != kNoTensor;
}
inline const Tensor& InputOf(const Graph& g, const Op& op, size_t i) {
  return g.tensor(op.inputs[i]);
}
inline const Tensor& OutputOf(const Graph& g, const Op& op, size_t i) {
  return g.tensor(op.outputs[i]);
}

// An optional operand's address; null when the op was made without it.
template <typename T>
const T* OptionalIn(const KernelArgs& args, size_t i) {
  return i < args.in.size() ? args.In<T>(i) : nullptr;
}
template <typename T>
T* OptionalOut(const KernelArgs& args, size_t i) {
  return i < args.out.size() ? args.Out<T>(i) : nullptr;
}
inline const void* OptionalIn(const KernelArgs& args, size_t i) {
  return i < args.in.size() ? args.in[i] : nullptr;
}
inline void* OptionalOut(const KernelArgs& args, size_t i) {
  return i < args.out.size() ? args.out[i] : nullptr;
}

// A tensor seen as a matrix [rows, channels]: the last dimension is the channels.
struct Rows {
  int64_t rows = 0;
  int channels = 0;
  kernels::ElementType type = kernels::ElementType::kF32;

  explicit Rows(const Tensor& t)
      : channels(t.shape.empty() ? 1 : static_cast<int>(t.shape.back())),
        type(ElementTypeOf(t.dtype)) {
    rows = channels == 0 ? 0 : t.elements() / channels;
  }
};

// A map [N, H, W, C].
inline kernels::MapShape AsMap(const Tensor& t) {
  return {static_cast<int>(t.shape.at(0)), static_cast<int>(t.shape.at(1)),
          static_cast<int>(t.shape.at(2)), static_cast<int>(t.shape.at(3))};
}

// The size of the whole map; without values.
inline kernels::EvenPixels EvenPixelsOf(const Tensor& whole) {
  return {nullptr, static_cast<int>(whole.shape.at(1)), static_cast<int>(whole.shape.at(2))};
}

}  // namespace xp::graph::cuda
