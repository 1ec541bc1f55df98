#include "exp/data/draw.h"

#include <algorithm>
#include <cmath>

#include "src/data/glyphs.h"

namespace xp::data {
namespace {

// Boxes of a diverged network may lie anywhere; a pixel's place must fit an int.
int Pixel(double v, int most) {
  if (!(v >= -1e6)) v = -1e6;
  return static_cast<int>(std::floor(std::min(v, static_cast<double>(most) + 1e6)));
}

void Fill(RgbImage* image, int x1, int y1, int x2, int y2, Colour c) {
  x1 = std::max(x1, 0), y1 = std::max(y1, 0);
  x2 = std::min(x2, image->width), y2 = std::min(y2, image->height);
  for (int y = y1; y < y2; ++y) {
    for (int x = x1; x < x2; ++x) {
      uint8_t* p = image->Row(y) + static_cast<size_t>(3) * x;
      p[0] = c.red, p[1] = c.green, p[2] = c.blue;
    }
  }
}

const Glyph& GlyphOf(char c) {
  bool known = c >= 32 && c < 127;
  return kGlyphs[(known ? c : '?') - 32];
}

}  // namespace

Colour ColourOf(int label) {
  static constexpr Colour kColours[12] = {{230, 25, 75},  {60, 180, 75},  {0, 130, 200},
                                          {245, 130, 48}, {145, 30, 180}, {70, 240, 240},
                                          {240, 50, 230}, {210, 245, 60}, {250, 190, 212},
                                          {0, 128, 128},  {170, 110, 40}, {255, 225, 25}};
  return kColours[((label % 12) + 12) % 12];
}

void DrawBox(RgbImage* image, double x1, double y1, double x2, double y2, Colour colour,
             int thickness) {
  int l = Pixel(x1, image->width), t = Pixel(y1, image->height);
  int r = Pixel(x2, image->width) + 1, b = Pixel(y2, image->height) + 1;
  Fill(image, l, t, r, std::min(t + thickness, b), colour);
  Fill(image, l, std::max(b - thickness, t), r, b, colour);
  Fill(image, l, t, std::min(l + thickness, r), b, colour);
  Fill(image, std::max(r - thickness, l), t, r, b, colour);
}

void DrawLabel(RgbImage* image, double x, double y, std::string_view text, Colour colour,
               int size) {
  int width = 4 * size;
  for (char c : text) width += GlyphOf(c).width * size;
  int height = 13 * size;
  int left = std::max(0, std::min(Pixel(x, image->width), image->width - width));
  int top = std::max(0, std::min(Pixel(y, image->height), image->height - height));
  Fill(image, left, top, left + width, top + height, colour);
  bool light = 299 * colour.red + 587 * colour.green + 114 * colour.blue > 140000;
  Colour ink = light ? Colour{0, 0, 0} : Colour{255, 255, 255};
  int at = left + 2 * size;
  for (char c : text) {
    const Glyph& glyph = GlyphOf(c);
    for (int row = 0; row < 12; ++row) {
      for (int column = 0; column < glyph.width; ++column) {
        if ((glyph.rows[row] >> column & 1) == 0) continue;
        int px = at + column * size, py = top + row * size;
        Fill(image, px, py, px + size, py + size, ink);
      }
    }
    at += glyph.width * size;
  }
}

}  // namespace xp::data
