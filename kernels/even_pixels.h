// A map [N, h, w, C] that stands for one [N, H, W, C], h = ceil(H / 2), w = ceil(W / 2): its pixels
// are those of even rows and columns there, and the others are 0. The data gradient of a 1x1
// convolution of stride 2 is such a map.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace xp::kernels {

// n / d for 0 <= n < 2^31 by a product (Granlund and Montgomery, Division by Invariant Integers
// using Multiplication, 1994).
struct Divisor {
  uint32_t d = 1, factor = 1, shift = 0;

  Divisor() = default;
  explicit Divisor(int divisor) : d(static_cast<uint32_t>(divisor)) {
    while ((uint64_t{1} << shift) < d) ++shift;
    factor = static_cast<uint32_t>((((uint64_t{1} << shift) - d) << 32) / d + 1);
  }
  __host__ __device__ uint32_t Of(uint32_t n) const {
    return (static_cast<uint32_t>(static_cast<uint64_t>(n) * factor >> 32) + n) >> shift;
  }
};

struct EvenPixels {
  const void* values = nullptr;  // [N, h, w, C]
  int half_height = 0, half_width = 0;
  Divisor height, width;  // of the whole map, of less than 2^31 pixels

  EvenPixels() = default;
  EvenPixels(const void* map, int whole_height, int whole_width)
      : values(map),
        half_height((whole_height + 1) / 2),
        half_width((whole_width + 1) / 2),
        height(whole_height),
        width(whole_width) {}

  // The pixel of `values` that stands for a pixel of the whole map; -1: it is 0.
  __host__ __device__ int64_t Pixel(int64_t whole) const {
    const auto pixel = static_cast<uint32_t>(whole);
    const uint32_t row = width.Of(pixel), x = pixel - row * width.d;
    const uint32_t image = height.Of(row), y = row - image * height.d;
    if (((x | y) & 1) != 0) return -1;
    return static_cast<int64_t>(image * static_cast<uint32_t>(half_height) + y / 2) * half_width +
           x / 2;
  }
};

}  // namespace xp::kernels
