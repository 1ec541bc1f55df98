// Reading image files of the kinds that data sets hold: JPEG, PNG and WebP, told apart by their
// first bytes, never by their names. All come out as 8-bit RGB: grey and palettes are expanded, an
// alpha channel is left out, 16-bit samples keep their upper half.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "exp/data/image.h"
#include "exp/data/resize.h"

namespace xp::data {

enum class ImageFormat { kUnknown, kJpeg, kPng, kWebp, kGif, kBmp, kTiff };

// "JPEG", "PNG", ...
const char* FormatName(ImageFormat format);

struct ImageInfo {
  ImageFormat format = ImageFormat::kUnknown;
  int width = 0;  // as stored, before the orientation is applied
  int height = 0;
  int channels = 0;     // 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha or CMYK
  int bit_depth = 8;    // of one sample
  int orientation = 1;  // EXIF 1..8
  bool progressive = false;
  bool cmyk = false;
  bool alpha = false;

  // Width and height of the upright image.
  Size upright() const { return orientation >= 5 ? Size{height, width} : Size{width, height}; }
};

// By their ending alone, for choosing files in a folder: .jpg and .jpeg; those, .png and .webp.
bool HasJpegEnding(const std::filesystem::path& path);
bool HasImageEnding(const std::filesystem::path& path);
// Whether it is that of images otherwise: .bmp, .gif, .tif, .jfif, ...
bool HasOtherImageEnding(const std::filesystem::path& path);

ImageFormat DetectFormat(std::span<const uint8_t> bytes);

// The header only. UsageError naming `name` for another format or a damaged header.
ImageInfo ReadImageInfo(std::span<const uint8_t> bytes, const std::string& name);

// Decodes into `out`, whose memory is reused; upright when `apply_orientation`. UsageError as
// above, and for a truncated or damaged file.
void DecodeImage(std::span<const uint8_t> bytes, const std::string& name, bool apply_orientation,
                 RgbImage* out);

// The content of an image file. Throws UsageError for what can't be read, isn't a regular file (a
// pipe would be waited for and a device read without end) or is over 2 GiB.
std::string ReadImageFile(const std::string& path);

// Reads and decodes a file.
RgbImage ReadImage(const std::string& path, bool apply_orientation = true);

}  // namespace xp::data
