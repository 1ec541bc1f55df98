#include <algorithm>
#include <array>
#include <numeric>

#include "src/data/augment.h"

namespace xp::data {
namespace {

float Max(float a, float b) { return a > b ? a : b; }
float Min(float a, float b) { return a < b ? a : b; }
uint8_t Round(float value) {
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): never negative, and it vectorizes
  return static_cast<uint8_t>(static_cast<int>(Min(Max(value, 0.0f), 255.0f) + 0.5f));
}

// Luma of ITU-R 601, with torchvision's constants.
float Grey(const uint8_t* p) { return 0.2989f * p[0] + 0.587f * p[1] + 0.114f * p[2]; }

// f(pixel) for each pixel.
template <typename F>
void Each(RgbImage* image, const F& f) {
  for (size_t i = 0; i < image->pixels.size(); i += 3) f(&image->pixels[i]);
}

// Pixels in planes, so that the compiler turns loops over them into vectors.
constexpr size_t kBlock = 128;
struct Block {
  float r[kBlock], g[kBlock], b[kBlock];
};

// Of numbers under 2^31; std::floor isn't a vector instruction everywhere.
float Floor(float x) {
  const float cut = static_cast<float>(static_cast<int>(x));
  return cut - (cut > x ? 1.0f : 0.0f);
}

// Turns the hue of colours in 0 .. 1, by RGB -> HSV -> RGB; results in 0 .. 255, not rounded.
void TurnHue(float turns, Block* block) {
  for (size_t i = 0; i < kBlock; ++i) {
    const float r = block->r[i], g = block->g[i], b = block->b[i];
    const float high = Max(Max(r, g), b), low = Min(Min(r, g), b);
    const float range = high - low, by = range == 0 ? 1 : range;  // grey: all differences are 0
    const float of_red = (g - b) / by, of_green = 2 + (b - r) / by, of_blue = 4 + (r - g) / by;
    float h = (high == r ? of_red : high == g ? of_green : of_blue) / 6;
    h += h < 0 ? 1.0f : 0.0f;
    const float s = range / (range == 0 ? 1 : high), v = high;
    h += turns;
    h -= Floor(h);
    const float h6 = h * 6, whole = Floor(h6), f = h6 - whole;
    const float sector = whole - (whole >= 6 ? 6.0f : 0.0f);  // h6 may have been rounded up to 6
    const float low_value = v * (1 - s), falling = v * (1 - s * f), rising = v * (1 - s * (1 - f));
    const bool first = sector < 3;  // of the two halves of the circle
    const float third = sector - (first ? 0.0f : 3.0f);
    block->r[i] = 255 * (first ? (third == 0   ? v
                                  : third == 1 ? falling
                                               : low_value)
                               : (third == 0   ? low_value
                                  : third == 1 ? rising
                                               : v));
    block->g[i] = 255 * (first ? (third == 0 ? rising : v) : (third == 0 ? falling : low_value));
    block->b[i] = 255 * (first ? (third == 2 ? rising : low_value) : (third == 2 ? falling : v));
  }
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
  Block block{};
  const size_t pixels = image->pixels.size() / 3;
  for (size_t first = 0; first < pixels; first += kBlock) {
    const size_t count = std::min(kBlock, pixels - first);
    uint8_t* p = &image->pixels[first * 3];
    for (size_t i = 0; i < count; ++i) {
      block.r[i] = p[3 * i] / 255.0f;
      block.g[i] = p[3 * i + 1] / 255.0f;
      block.b[i] = p[3 * i + 2] / 255.0f;
    }
    TurnHue(static_cast<float>(turns), &block);
    for (size_t i = 0; i < count; ++i) {
      p[3 * i] = Round(block.r[i]);
      p[3 * i + 1] = Round(block.g[i]);
      p[3 * i + 2] = Round(block.b[i]);
    }
  }
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
