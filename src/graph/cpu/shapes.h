// Reading an operation's operands: small helpers that every CPU kernel uses when it is created.
#pragma once

#include <cstdint>

#include "exp/graph/graph.h"

namespace xp::graph::cpu {

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

// A tensor seen as a matrix [rows, channels]: the last dimension is the channels.
struct Rows {
  int64_t rows = 0, channels = 0;
  int64_t elements() const { return rows * channels; }
};
inline Rows AsRows(const Tensor& tensor) {
  Rows r;
  r.channels = tensor.shape.empty() ? 1 : tensor.shape.back();
  r.rows = r.channels == 0 ? 0 : tensor.elements() / r.channels;
  return r;
}

// A map [N, H, W, C].
struct MapShape {
  int64_t n = 0, h = 0, w = 0, c = 0;
};
inline MapShape AsMap(const Tensor& tensor) {
  return {tensor.shape.at(0), tensor.shape.at(1), tensor.shape.at(2), tensor.shape.at(3)};
}

}  // namespace xp::graph::cpu
