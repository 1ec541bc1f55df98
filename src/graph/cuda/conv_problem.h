// A convolution (or a product with a matrix, which is one of 1 x 1) with everything that decides
// which cuDNN plans exist for it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "exp/graph/graph.h"

namespace xp::graph::cuda {

enum class ConvKind : uint8_t { kForward, kDataGrad, kWeightGrad };

struct ConvProblem {
  ConvKind kind = ConvKind::kForward;
  DType type = DType::kF32;  // of x, w and y
  bool tf32 = false;         // f32 on tensor cores
  bool deterministic = true;
  bool linear = false;                 // n, h, w may be regrouped at will
  int64_t n = 1, h = 1, w = 1, c = 1;  // x [n, h, w, c]
  int64_t k = 1, r = 1, s = 1;         // weights [k, r, s, c / groups]
  int64_t p = 1, q = 1;                // y [n, p, q, k]
  std::array<int, 2> stride{1, 1}, pad{0, 0}, dilation{1, 1};
  int groups = 1;
  bool bias = false, relu = false;  // forward only

  int64_t x_elements() const { return n * h * w * c; }
  int64_t w_elements() const { return k * r * s * (c / groups); }
  int64_t y_elements() const { return n * p * q * k; }

  // One line without blanks, the name of this problem in plan caches and records:
  // "wgrad-bf16-x16x200x336x64-w64x3x3x64-s1x1-p1x1-d1x1-g1". Ends in "-any" when plans that don't
  // repeat bit for bit are allowed.
  std::string Key() const;
};

// The problem of a kConv2d*, kLinear* operation.
ConvProblem ProblemOf(const Graph& g, const Op& op, bool tf32, bool deterministic);

}  // namespace xp::graph::cuda
