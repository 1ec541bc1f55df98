// A small model for the tests of update operations: four trained segments with gaps between them,
// one of them long enough for several blocks, their gradients and a double-precision view of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "graph/run_graph.h"
#include "src/graph/half.h"

namespace xp::graph {

struct UpdateCase {
  int64_t total = 35136;
  std::vector<Segment> segments{
      {.offset = 0, .count = 30, .decay = 0.01f, .grad_offset = 34816},
      {.offset = 64, .count = 1, .lr_multiplier = 2, .grad_offset = 64},
      {.offset = 192, .count = 256, .lr_multiplier = 0.5f, .decay = 0.1f, .grad_offset = 34880},
      {.offset = 512, .count = 34567, .decay = 0.02f, .grad_offset = 192}};
  std::vector<float> param, grad, grad_compute, accumulated;

  // In a graph of type f32 every gradient is in `grad`; else those of the last two segments come in
  // the compute type.
  UpdateCase(DType compute, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    auto n = static_cast<size_t>(total);
    for (std::vector<float>* v : {&param, &grad, &grad_compute, &accumulated}) {
      v->resize(n);
      for (float& x : *v) x = normal(random);
    }
    if (compute == DType::kF32) return;
    segments[2].compute_grad = segments[3].compute_grad = true;
    for (float& x : grad_compute) {
      x = compute == DType::kBF16 ? Bf16ToFloat(FloatToBf16(x)) : HalfToFloat(FloatToHalf(x));
    }
  }
  const std::vector<float>& GradOf(const Segment& s, bool use_accumulated) const {
    if (use_accumulated) return accumulated;
    return s.compute_grad ? grad_compute : grad;
  }
  // `grad` as the operations get it: each segment's at its grad_offset, infinity in nobody's
  // places.
  std::vector<float> PackedGrad() const {
    std::vector<float> packed(grad.size(), INFINITY);
    for (const Segment& s : segments) {
      std::copy_n(grad.begin() + s.offset, s.count, packed.begin() + s.grad_offset);
    }
    return packed;
  }
  // `values` as the compute type holds them.
  static float Rounded(float value, DType compute) {
    if (compute == DType::kBF16) return Bf16ToFloat(FloatToBf16(value));
    if (compute == DType::kF16) return HalfToFloat(FloatToHalf(value));
    return value;
  }
};

}  // namespace xp::graph
