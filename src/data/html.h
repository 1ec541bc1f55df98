// HTML pages with images and boxes, in one file without outside references.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exp/data/image.h"

namespace xp::data {

struct DrawnBox {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;  // pixels of the image that is drawn
  int label = 0;                          // chooses the colour
  std::string text;                       // beside the box
  bool dashed = false;                    // ignored or left out
};

// The image as an embedded JPEG, at most `width` pixels wide, under its boxes (SVG), with a
// caption.
std::string Figure(const RgbImage& image, const std::vector<DrawnBox>& boxes,
                   const std::string& caption, int width);

// A whole page around `body`, which is HTML already.
std::string Page(const std::string& title, const std::string& body);

}  // namespace xp::data
