// JPEG decoding to 8-bit RGB and encoding, through libjpeg-turbo.
//
// Grey, YCbCr, RGB, CMYK and YCCK files, baseline and progressive, come out as RGB. A truncated or
// corrupt file is a UsageError that names it, never a crash or a hang; bytes between markers that
// don't belong there are tolerated, as many real files have some. The integer DCT and the fancy
// upsampling are used, which give the same bits with and without SIMD.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "exp/data/image.h"

namespace xp::data {

struct JpegInfo {
  int width = 0;  // as stored, before the orientation is applied
  int height = 0;
  int components = 0;   // 1 grey, 3 colour, 4 CMYK
  int orientation = 1;  // EXIF 1..8; 1: as stored; 5..8 swap width and height
  bool progressive = false;
};

struct JpegDecodeOptions {
  bool apply_orientation = true;
  // Decodes at scale/8 of the size (1..8), in the DCT and so faster. The result has
  // ceil(size * scale / 8) pixels.
  int scale = 8;
};

// The header only; `name` is the path for messages.
JpegInfo ReadJpegInfo(std::span<const uint8_t> bytes, const std::string& name);

// Decodes into `out`, whose memory is reused.
void DecodeJpeg(std::span<const uint8_t> bytes, const std::string& name,
                const JpegDecodeOptions& options, RgbImage* out);

// A rectangle of stored pixels at full size.
struct JpegRegion {
  int x = 0, y = 0, width = 0, height = 0;
};

// What DecodeJpegRegion decoded: `scale`/8 of the size, its first pixel at (x, y) of the image of
// that size.
struct DecodedRegion {
  int scale = 8;
  int x = 0, y = 0;
};

// Decodes only what covers `region` (stored pixels, inside of the image), at the smallest of 1/8,
// 1/4, 1/2 and 1 at which the region still has at least `min_width` x `min_height` pixels. Several
// times as fast as the whole for a small region of a large image. Pixels at the edges may differ a
// little from those of a whole decode. The orientation isn't applied.
DecodedRegion DecodeJpegRegion(std::span<const uint8_t> bytes, const std::string& name,
                               const JpegRegion& region, int min_width, int min_height,
                               RgbImage* out);

// Reads and decodes a file.
RgbImage ReadJpeg(const std::string& path, const JpegDecodeOptions& options = {});

// A baseline JPEG with 4:2:0 chroma; quality 1..100.
std::string EncodeJpeg(const RgbImage& image, int quality);

// Turns an image as EXIF orientation 1..8 says.
void ApplyOrientation(int orientation, RgbImage* image);

}  // namespace xp::data
