// An 8-bit RGB image in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace xp::data {

// Row-major [height, width, 3], no padding between rows.
struct RgbImage {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> pixels;

  void Reset(int w, int h) {
    width = w;
    height = h;
    pixels.resize(static_cast<size_t>(w) * h * 3);
  }
  uint8_t* Row(int y) { return pixels.data() + static_cast<size_t>(y) * width * 3; }
  const uint8_t* Row(int y) const { return pixels.data() + static_cast<size_t>(y) * width * 3; }
};

}  // namespace xp::data
