// Conversions between float and the 16-bit types over ranges; round to nearest even.
#pragma once

#include <cstdint>

#include "exp/graph/tensor.h"

namespace xp::graph::cpu {

inline bool IsNarrow(DType type) { return type == DType::kBF16 || type == DType::kF16; }

void Widen(DType from, const uint16_t* x, int64_t n, float* y);
void Narrow(DType to, const float* x, int64_t n, uint16_t* y);
// A copy past the caches where the processor can: what is overwritten isn't read first.
void StreamOut(const float* x, int64_t n, float* y);

}  // namespace xp::graph::cpu
