#include "src/data/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "exp/base/base64.h"
#include "exp/base/escape.h"
#include "exp/data/jpeg.h"
#include "exp/data/resize.h"

namespace xp::data {
namespace {

constexpr const char* kStyle =
    "body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:1200px;padding:0 "
    "1em;color:#222}"
    "table{border-collapse:collapse;margin:.5em 0}td,th{padding:.15em "
    ".8em;text-align:left;border-bottom:1px solid #ddd;"
    "vertical-align:top}td.n{text-align:right;font-variant-numeric:tabular-nums}.error{color:#"
    "b00020}.warning{color:#a15c00}"
    ".note{color:#555}figure{display:inline-block;margin:.4em;vertical-align:top;max-width:100%}"
    "figcaption{font-size:12px;"
    "color:#555;max-width:420px;overflow-wrap:anywhere}svg{display:block;max-width:100%;height:"
    "auto}.bar{background:#4a7ab5;"
    "height:.8em;display:inline-block}details{margin:.3em 0}code{background:#f3f3f3}";

// Colours that are far apart for neighbouring labels.
std::string Colour(int label) { return fmt::format("hsl({},85%,55%)", (label * 137) % 360); }

}  // namespace

std::string Figure(const RgbImage& image, const std::vector<DrawnBox>& boxes,
                   const std::string& caption, int width) {
  double scale = std::min(1.0, static_cast<double>(width) / image.width);
  RgbImage small;
  small.Reset(std::max(1, static_cast<int>(image.width * scale)),
              std::max(1, static_cast<int>(image.height * scale)));
  ResizeBilinear(image.pixels.data(), image.width, image.height,
                 static_cast<size_t>(image.width) * 3, small.pixels.data(), small.width,
                 small.height, static_cast<size_t>(small.width) * 3);
  std::string out = fmt::format(
      "<figure><svg width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\"><image width=\"{0}\" "
      "height=\"{1}\" "
      "href=\"data:image/jpeg;base64,{2}\"/>",
      small.width, small.height, EncodeBase64(EncodeJpeg(small, 85)));
  for (const DrawnBox& box : boxes) {
    std::string colour = Colour(box.label);
    double x = box.x1 * scale, y = box.y1 * scale;
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
        "stroke=\"{}\" stroke-width=\"1.5\"{}/>",
        x, y, std::max(0.0, (box.x2 - box.x1) * scale), std::max(0.0, (box.y2 - box.y1) * scale),
        colour, box.dashed ? " stroke-dasharray=\"4 3\"" : "");
    if (!box.text.empty()) {
      out += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"11\" fill=\"{}\" stroke=\"#000\" "
          "stroke-width=\"2.5\" paint-order=\"stroke\">{}</text>",
          x + 1, std::max(y - 2, 9.0), colour, EscapeHtml(box.text));
    }
  }
  return out + "</svg><figcaption>" + EscapeHtml(caption) + "</figcaption></figure>\n";
}

std::string Page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta "
      "charset=\"utf-8\"><title>{0}</title><style>{1}</style></head>"
      "<body><h1>{0}</h1>\n{2}</body></html>\n",
      EscapeHtml(title), kStyle, body);
}

}  // namespace xp::data
