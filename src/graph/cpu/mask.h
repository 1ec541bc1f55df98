// The bit masks of normalisation layers (ops.h): bit i % 8 of byte i / 8 says output i > 0.
#pragma once

#include <cstdint>

namespace xp::graph::cpu {

// mask = bits of y > 0, for n elements that begin on a byte; the last byte's spare bits are 0.
void PackMask(const float* y, int64_t n, uint8_t* mask);
// out[i] = bit i ? x[i] : 0.
void ApplyMask(const float* x, const uint8_t* mask, int64_t n, float* out);

}  // namespace xp::graph::cpu
