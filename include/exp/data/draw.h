// Boxes and short texts on images, for people to look at.
#pragma once

#include <string>
#include <string_view>

#include "exp/data/image.h"

namespace xp::data {

struct Colour {
  unsigned char red = 0, green = 0, blue = 0;
};

// Well told apart, in a fixed order; label k has colour k modulo 12.
Colour ColourOf(int label);

// The outline of [x1, x2] x [y1, y2], `thickness` pixels wide, as far as it lies in the image.
void DrawBox(RgbImage* image, double x1, double y1, double x2, double y2, Colour colour,
             int thickness = 2);

// Black or white text, whichever is read better, on a strip of the colour; its upper left corner at
// (x, y), moved into the image. Characters beyond ASCII are drawn as `?`. `size` repeats pixels.
void DrawLabel(RgbImage* image, double x, double y, std::string_view text, Colour colour,
               int size = 1);

}  // namespace xp::data
