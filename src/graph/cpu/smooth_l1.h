// The regression loss of all detectors here (ops.h, RpnLossAttrs): quadratic below beta, linear
// above; beta 0 is L1. Its slope at 0 is 0, as PyTorch has it.
#pragma once

namespace xp::graph::cpu {

struct SmoothL1 {
  float value, slope;
};

inline SmoothL1 SmoothL1Of(float d, float beta) {
  float size = d < 0 ? -d : d;
  if (size < beta) return {0.5f * d * d / beta, d / beta};
  return {size - 0.5f * beta, d > 0 ? 1.0f : (d < 0 ? -1.0f : d)};
}

}  // namespace xp::graph::cpu
