#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "src/data/augment.h"

namespace xp::data {
namespace {

// NOLINTNEXTLINE(bugprone-incorrect-roundings): never negative, and it vectorizes
uint8_t Round(float value) { return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f) + 0.5f); }

// Luma of ITU-R 601, with torchvision's constants.
float Grey(const uint8_t* p) { return 0.2989f * p[0] + 0.587f * p[1] + 0.114f * p[2]; }

// f(pixel) for each pixel.
template <typename F>
void Each(RgbImage* image, const F& f) {
  for (size_t i = 0; i < image->pixels.size(); i += 3) f(&image->pixels[i]);
}

struct Hsv {
  float h, s, v;  // hue in turns, 0 .. 1
};

Hsv ToHsv(const uint8_t* p) {
  float r = p[0] / 255.0f, g = p[1] / 255.0f, b = p[2] / 255.0f;
  float high = std::max({r, g, b}), low = std::min({r, g, b}), range = high - low;
  if (range == 0) return {0, 0, high};
  float h = high == r ? (g - b) / range : high == g ? 2 + (b - r) / range : 4 + (r - g) / range;
  h /= 6;
  return {h < 0 ? h + 1 : h, range / high, high};
}

void ToRgb(const Hsv& hsv, uint8_t* p) {
  float h6 = hsv.h * 6;
  int sector = static_cast<int>(h6) % 6;
  float f = h6 - std::floor(h6);
  float a = hsv.v * (1 - hsv.s), b = hsv.v * (1 - hsv.s * f), c = hsv.v * (1 - hsv.s * (1 - f)),
        v = hsv.v;
  const std::array<std::array<float, 3>, 6> all = {
      {{v, c, a}, {b, v, a}, {a, v, c}, {a, b, v}, {c, a, v}, {v, a, b}}};
  for (size_t k = 0; k < 3; ++k) p[k] = Round(all[static_cast<size_t>(sector)][k] * 255);
}

double Draw(const std::array<double, 2>& range, RandomStream* stream) {
  return stream->Uniform(range[0], range[1]);
}

void SwapChannels(uint32_t permutation, RgbImage* image) {
  static constexpr std::array<std::array<int, 3>, 6> kOrders = {
      {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
  const std::array<int, 3>& order = kOrders[permutation];
  Each(image, [&](uint8_t* p) {
    uint8_t old[3] = {p[0], p[1], p[2]};
    for (size_t k = 0; k < 3; ++k) p[k] = old[order[k]];
  });
}

}  // namespace

void AdjustBrightness(double factor, RgbImage* image) {
  float f = static_cast<float>(factor);
  for (uint8_t& p : image->pixels) p = Round(p * f);
}

void AdjustContrast(double factor, RgbImage* image) {
  double sum = 0;
  Each(image, [&](const uint8_t* p) { sum += Grey(p); });
  float f = static_cast<float>(factor);
  float base = static_cast<float>(sum / (static_cast<double>(image->pixels.size()) / 3)) * (1 - f);
  for (uint8_t& p : image->pixels) p = Round(p * f + base);
}

void AdjustSaturation(double factor, RgbImage* image) {
  float f = static_cast<float>(factor);
  Each(image, [&](uint8_t* p) {
    float base = Grey(p) * (1 - f);
    for (int k = 0; k < 3; ++k) p[k] = Round(p[k] * f + base);
  });
}

void AdjustHue(double turns, RgbImage* image) {
  Each(image, [&](uint8_t* p) {
    Hsv hsv = ToHsv(p);
    hsv.h += static_cast<float>(turns);
    hsv.h -= std::floor(hsv.h);
    ToRgb(hsv, p);
  });
}

void ApplyPhotometric(const Photometric& o, RandomStream* stream, RgbImage* image) {
  // All are drawn first, so that one doesn't change what another draws.
  double chance[7];
  for (double& c : chance) c = stream->NextDouble();
  double brightness = Draw(o.brightness, stream), contrast = Draw(o.contrast, stream);
  double saturation = Draw(o.saturation, stream), hue = Draw(o.hue, stream);
  uint32_t permutation = stream->Below(6);
  bool before = chance[1] < 0.5;
  if (chance[0] < o.probability) AdjustBrightness(brightness, image);
  if (before && chance[2] < o.probability) AdjustContrast(contrast, image);
  if (chance[3] < o.probability) AdjustSaturation(saturation, image);
  if (chance[4] < o.probability) AdjustHue(hue, image);
  if (!before && chance[5] < o.probability) AdjustContrast(contrast, image);
  if (o.swap_channels && chance[6] < o.probability) SwapChannels(permutation, image);
}

}  // namespace xp::data
