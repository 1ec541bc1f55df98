#include "exp/data/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

// Rounding by + 0.5 and a cut: the values are never negative, and the bits are part of the
// contract. NOLINTBEGIN(bugprone-incorrect-roundings)
namespace xp::data {
namespace {

// Which two source positions an output position lies between, and how far from the first.
struct Tap {
  int low, high;
  float weight;  // of `high`
};

std::vector<Tap> Taps(int in, int out, bool mirror) {
  std::vector<Tap> taps(static_cast<size_t>(out));
  double step = static_cast<double>(in) / out;
  for (int i = 0; i < out; ++i) {
    double at = std::max((i + 0.5) * step - 0.5, 0.0);
    int low = std::min(static_cast<int>(at), in - 1);
    Tap tap{low, std::min(low + 1, in - 1), static_cast<float>(at - low)};
    taps[static_cast<size_t>(mirror ? out - 1 - i : i)] = tap;
  }
  return taps;
}

// One source row, interpolated to the output's width.
void Horizontal(const uint8_t* row, const std::vector<Tap>& taps, float* out) {
  for (const Tap& tap : taps) {
    const uint8_t* a = row + 3 * static_cast<size_t>(tap.low);
    const uint8_t* b = row + 3 * static_cast<size_t>(tap.high);
    for (int c = 0; c < 3; ++c) {
      float low = a[c];
      *out++ = low + (static_cast<float>(b[c]) - low) * tap.weight;
    }
  }
}

void Vertical(const float* low, const float* high, float weight, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<uint8_t>(static_cast<int>(low[i] + (high[i] - low[i]) * weight + 0.5f));
  }
}

}  // namespace

void ResizeBilinear(const uint8_t* source, int width, int height, size_t source_stride,
                    uint8_t* out, int out_width, int out_height, size_t out_stride, Mirror mirror) {
  std::vector<Tap> columns = Taps(width, out_width, mirror.horizontal);
  std::vector<Tap> rows = Taps(height, out_height, mirror.vertical);
  size_t count = static_cast<size_t>(out_width) * 3;
  // The last two interpolated source rows: consecutive output rows share them.
  std::vector<float> cache[2] = {std::vector<float>(count), std::vector<float>(count)};
  int held[2] = {-1, -1};
  auto row = [&](int y, int keep) {
    for (int i = 0; i < 2; ++i) {
      if (held[i] == y) return i;
    }
    int slot = held[0] == keep ? 1 : 0;
    Horizontal(source + static_cast<size_t>(y) * source_stride, columns, cache[slot].data());
    held[slot] = y;
    return slot;
  };
  for (int y = 0; y < out_height; ++y) {
    const Tap& tap = rows[static_cast<size_t>(y)];
    int low = row(tap.low, tap.high);
    int high = row(tap.high, tap.low);
    Vertical(cache[low].data(), cache[high].data(), tap.weight, count,
             out + static_cast<size_t>(y) * out_stride);
  }
}

Size KeepRatioSize(Size image, ImageScale scale, SizeRounding rounding) {
  int long_bound = std::max(scale.width, scale.height),
      short_bound = std::min(scale.width, scale.height);
  int long_side = std::max(image.width, image.height),
      short_side = std::min(image.width, image.height);
  Size out;
  if (rounding == SizeRounding::kFloor) {
    // Single precision on purpose: torchvision's 640x480 becomes 1066x799 at 800/1333.
    float factor = std::min(static_cast<float>(short_bound) / static_cast<float>(short_side),
                            static_cast<float>(long_bound) / static_cast<float>(long_side));
    out = {static_cast<int>(std::floor(static_cast<double>(image.width) * factor)),
           static_cast<int>(std::floor(static_cast<double>(image.height) * factor))};
  } else {
    double factor = std::min(static_cast<double>(long_bound) / long_side,
                             static_cast<double>(short_bound) / short_side);
    out = {static_cast<int>(image.width * factor + 0.5),
           static_cast<int>(image.height * factor + 0.5)};
  }
  return {std::max(out.width, 1), std::max(out.height, 1)};
}

}  // namespace xp::data
// NOLINTEND(bugprone-incorrect-roundings)
