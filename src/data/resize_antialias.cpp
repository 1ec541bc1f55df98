// Pillow's resampling of 8-bit channels (libImaging/Resample.c, HPND licence), with its fixed-point
// arithmetic, for the triangle filter.
#include <algorithm>
#include <cmath>
#include <vector>

#include "exp/data/resize.h"

// Rounding by + 0.5 and a cut: the values are never negative, and the bits are part of the
// contract. NOLINTBEGIN(bugprone-incorrect-roundings)
namespace xp::data {
namespace {

constexpr int kPrecision = 32 - 8 - 2;

// The source positions that make up each output position.
struct Kernel {
  int size = 0;              // most taps of one output
  std::vector<int> first;    // [out]
  std::vector<int> count;    // [out]
  std::vector<int> weights;  // [out, size]
};

// Of `whole` output positions, the `out` from `begin` on.
Kernel MakeKernel(int in, double from, double to, int64_t whole, int64_t begin, int out,
                  bool mirror) {
  Kernel kernel;
  double scale = (to - from) / static_cast<double>(whole), filter_scale = std::max(scale, 1.0),
         support = filter_scale;
  kernel.size = static_cast<int>(std::ceil(support)) * 2 + 1;
  kernel.first.resize(static_cast<size_t>(out));
  kernel.count.resize(static_cast<size_t>(out));
  kernel.weights.resize(static_cast<size_t>(out) * kernel.size);
  std::vector<double> w(static_cast<size_t>(kernel.size));
  for (int i = 0; i < out; ++i) {
    double centre = from + (static_cast<double>(begin + i) + 0.5) * scale, sum = 0,
           inverse = 1.0 / filter_scale;
    int low = std::max(static_cast<int>(centre - support + 0.5), 0);
    int count = std::min(static_cast<int>(centre + support + 0.5), in) - low;
    for (int k = 0; k < count; ++k) {
      double distance = std::abs((k + low - centre + 0.5) * inverse);
      w[static_cast<size_t>(k)] = distance < 1 ? 1 - distance : 0;
      sum += w[static_cast<size_t>(k)];
    }
    size_t at = static_cast<size_t>(mirror ? out - 1 - i : i);
    kernel.first[at] = low;
    kernel.count[at] = count;
    for (int k = 0; k < count; ++k) {
      double share = sum != 0 ? w[static_cast<size_t>(k)] / sum : 0;
      kernel.weights[at * kernel.size + k] = static_cast<int>(0.5 + share * (1 << kPrecision));
    }
  }
  return kernel;
}

uint8_t Clip(int sum) { return static_cast<uint8_t>(std::clamp(sum >> kPrecision, 0, 255)); }

void Horizontal(const uint8_t* row, const Kernel& kernel, uint8_t* out) {
  const int* weights = kernel.weights.data();
  for (size_t i = 0; i < kernel.first.size(); ++i, weights += kernel.size, out += 3) {
    int r = 1 << (kPrecision - 1), g = r, b = r;
    const uint8_t* p = row + 3 * static_cast<size_t>(kernel.first[i]);
    for (int k = 0; k < kernel.count[i]; ++k, p += 3) {
      r += p[0] * weights[k];
      g += p[1] * weights[k];
      b += p[2] * weights[k];
    }
    out[0] = Clip(r);
    out[1] = Clip(g);
    out[2] = Clip(b);
  }
}

void Vertical(const uint8_t* rows, size_t stride, const int* weights, int count, int* sums,
              uint8_t* out) {
  std::fill(sums, sums + stride, 1 << (kPrecision - 1));
  for (int k = 0; k < count; ++k) {
    const uint8_t* row = rows + static_cast<size_t>(k) * stride;
    int weight = weights[k];
    for (size_t i = 0; i < stride; ++i) sums[i] += row[i] * weight;
  }
  for (size_t i = 0; i < stride; ++i) out[i] = Clip(sums[i]);
}

}  // namespace

void ResizeAntialias(const uint8_t* source, int width, int height, size_t source_stride,
                     const ResizeBox& box, uint8_t* out, int out_width, int out_height,
                     size_t out_stride, Mirror mirror) {
  ResizeAntialias(source, width, height, source_stride, box, {out_width, out_height, 0, 0}, out,
                  out_width, out_height, out_stride, mirror);
}

void ResizeAntialias(const uint8_t* source, int width, int height, size_t source_stride,
                     const ResizeBox& box, const ResizeWindow& window, uint8_t* out, int out_width,
                     int out_height, size_t out_stride, Mirror mirror) {
  Kernel columns =
      MakeKernel(width, box.x1, box.x2, window.width, window.x, out_width, mirror.horizontal);
  Kernel rows =
      MakeKernel(height, box.y1, box.y2, window.height, window.y, out_height, mirror.vertical);
  // Only the rows that the vertical pass will ask for.
  int first = height, last = 0;
  for (int y = 0; y < out_height; ++y) {
    first = std::min(first, rows.first[static_cast<size_t>(y)]);
    last = std::max(last, rows.first[static_cast<size_t>(y)] + rows.count[static_cast<size_t>(y)]);
  }
  size_t stride = static_cast<size_t>(out_width) * 3;
  std::vector<uint8_t> between(stride * static_cast<size_t>(std::max(last - first, 0)));
  for (int y = first; y < last; ++y) {
    Horizontal(source + static_cast<size_t>(y) * source_stride, columns,
               &between[static_cast<size_t>(y - first) * stride]);
  }
  std::vector<int> sums(stride);
  for (int y = 0; y < out_height; ++y) {
    size_t at = static_cast<size_t>(y);
    Vertical(&between[static_cast<size_t>(rows.first[at] - first) * stride], stride,
             &rows.weights[at * rows.size], rows.count[at], sums.data(), out + at * out_stride);
  }
}

}  // namespace xp::data
// NOLINTEND(bugprone-incorrect-roundings)
