#include "src/data/crop.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace xp::data {
namespace {

// exp and log from additions and products alone: exact to a few units of the last place, and the
// same everywhere.
double Exp(double x) {
  double power = 1, sum = 1;
  x /= 16;
  for (int i = 1; i < 20; ++i) {
    power *= x / i;
    sum += power;
  }
  for (int i = 0; i < 4; ++i) sum *= sum;
  return sum;
}

double Log(double y) {
  double x = 0;
  for (int i = 0; i < 40; ++i) {
    double e = Exp(x);
    x += 2 * (y - e) / (y + e);  // Halley's step
  }
  return x;
}

// Python's round: halves go to the even neighbour.
int Round(double x) { return static_cast<int>(std::nearbyint(x)); }

JpegRegion CentrePart(Size image, const std::array<double, 2>& ratio) {
  double aspect = static_cast<double>(image.width) / image.height;
  int w = image.width, h = image.height;
  if (aspect < ratio[0]) {
    h = std::clamp(Round(w / ratio[0]), 1, image.height);
  } else if (aspect > ratio[1]) {
    w = std::clamp(Round(h * ratio[1]), 1, image.width);
  }
  return {(image.width - w) / 2, (image.height - h) / 2, w, h};
}

}  // namespace

JpegRegion DrawResizedCrop(Size image, const std::array<double, 2>& scale,
                           const std::array<double, 2>& ratio, RandomStream* stream) {
  double low = Log(ratio[0]), high = Log(ratio[1]);
  for (int trial = 0; trial < 10; ++trial) {
    double area =
        static_cast<double>(image.width) * image.height * stream->Uniform(scale[0], scale[1]);
    double aspect = Exp(stream->Uniform(low, high));
    int w = Round(std::sqrt(area * aspect)), h = Round(std::sqrt(area / aspect));
    if (w < 1 || h < 1 || w > image.width || h > image.height) continue;
    int y = static_cast<int>(stream->Below(static_cast<uint32_t>(image.height - h + 1)));
    int x = static_cast<int>(stream->Below(static_cast<uint32_t>(image.width - w + 1)));
    return {x, y, w, h};
  }
  return CentrePart(image, ratio);
}

ResizeWindow CentreOfResized(Size image, int shorter, int size) {
  const int longer_side = std::max(image.width, image.height),
            shorter_side = std::min(image.width, image.height);
  const auto longer =
      static_cast<int64_t>(static_cast<double>(shorter) * longer_side / shorter_side);
  ResizeWindow window{shorter, longer, 0, 0};
  if (image.width > image.height) std::swap(window.width, window.height);
  // Halves go to the even neighbour.
  auto begin = [size](int64_t whole) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(whole - size) / 2));
  };
  window.x = begin(window.width);
  window.y = begin(window.height);
  return window;
}

}  // namespace xp::data
