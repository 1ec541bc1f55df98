// Bilinear resize of 8-bit RGB, and the sizes that detection recipes ask for.
//
// Half-pixel centres, corners not aligned, not antialiased, as
// torch.nn.functional.interpolate(mode= "bilinear", align_corners=False); the result is rounded to
// nearest. Fixed order of single-precision operations without contraction: the same bits on every
// machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exp/data/image.h"

namespace xp::data {

// Mirrors are applied while resizing, at no cost; they equal mirroring the result.
struct Mirror {
  bool horizontal = false;
  bool vertical = false;
};

// Resizes `width` x `height` pixels at `source` (rows `source_stride` bytes apart) into
// `out_width` x `out_height` pixels at `out` (rows `out_stride` bytes apart). All sizes >= 1.
void ResizeBilinear(const uint8_t* source, int width, int height, size_t source_stride,
                    uint8_t* out, int out_width, int out_height, size_t out_stride,
                    Mirror mirror = {});

// A part of an image, in pixels; edges may lie between pixels.
struct ResizeBox {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
};

// Resizes the part `box` of an image with a triangle filter that widens when shrinking
// (antialiased): byte for byte what Pillow's Image.resize(size, BILINEAR, box=box) gives, and so
// torchvision's Resize and RandomResizedCrop on PIL images. Fixed-point: the same bits on every
// machine.
void ResizeAntialias(const uint8_t* source, int width, int height, size_t source_stride,
                     const ResizeBox& box, uint8_t* out, int out_width, int out_height,
                     size_t out_stride, Mirror mirror = {});

// Of a resize to `width` x `height`, the pixels from (x, y) on.
struct ResizeWindow {
  int64_t width = 0, height = 0;
  int64_t x = 0, y = 0;
};

// The same for a part of the result alone, `out_width` x `out_height` pixels of it: what the rest
// would take in memory and time (of a very long image, without end) isn't needed.
void ResizeAntialias(const uint8_t* source, int width, int height, size_t source_stride,
                     const ResizeBox& box, const ResizeWindow& window, uint8_t* out, int out_width,
                     int out_height, size_t out_stride, Mirror mirror = {});

struct Size {
  int width = 0;
  int height = 0;
  bool operator==(const Size&) const = default;
};

// `img_scale` of mmdetection: the longer of the two bounds the image's longer side, the shorter its
// shorter side, whatever their order.
struct ImageScale {
  int width = 0;
  int height = 0;
  bool operator==(const ImageScale&) const = default;
};

enum class SizeRounding {
  kFloor,    // torchvision: scale in single precision, size floored (640x480 at 1333x800: 1066x799)
  kNearest,  // mmdetection: size rounded to nearest
};

// The size of an image after a resize that keeps its ratio: scale = min(shorter bound / shorter
// side, longer bound / longer side). At least 1x1.
Size KeepRatioSize(Size image, ImageScale scale, SizeRounding rounding = SizeRounding::kFloor);

}  // namespace xp::data
