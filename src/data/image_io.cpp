#include "exp/data/image_io.h"

#include <fmt/format.h>

#include <cstring>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/data/jpeg.h"
#include "src/data/png_webp.h"

namespace xp::data {
namespace {

bool StartsWith(std::span<const uint8_t> bytes, std::string_view magic, size_t at = 0) {
  return bytes.size() >= at + magic.size() &&
         std::memcmp(bytes.data() + at, magic.data(), magic.size()) == 0;
}

[[noreturn]] void Unsupported(std::span<const uint8_t> bytes, const std::string& name) {
  ImageFormat format = DetectFormat(bytes);
  std::string what = bytes.empty() ? "the file is empty"
                     : format == ImageFormat::kUnknown
                         ? "not an image of a known format"
                         : fmt::format("{} images are not supported", FormatName(format));
  throw UsageError({.what = what, .where = name, .expected = "a JPEG, PNG or WebP image"});
}

}  // namespace

const char* FormatName(ImageFormat format) {
  static constexpr const char* kNames[] = {"unknown", "JPEG", "PNG", "WebP", "GIF", "BMP", "TIFF"};
  return kNames[static_cast<int>(format)];
}

ImageFormat DetectFormat(std::span<const uint8_t> bytes) {
  using namespace std::string_view_literals;
  if (StartsWith(bytes, "\xFF\xD8\xFF"sv)) return ImageFormat::kJpeg;
  if (StartsWith(bytes, "\x89PNG\r\n\x1A\n"sv)) return ImageFormat::kPng;
  if (StartsWith(bytes, "RIFF"sv) && StartsWith(bytes, "WEBP"sv, 8)) return ImageFormat::kWebp;
  if (StartsWith(bytes, "GIF8"sv)) return ImageFormat::kGif;
  if (StartsWith(bytes, "BM"sv)) return ImageFormat::kBmp;
  if (StartsWith(bytes, "II*\0"sv) || StartsWith(bytes, "MM\0*"sv)) return ImageFormat::kTiff;
  return ImageFormat::kUnknown;
}

ImageInfo ReadImageInfo(std::span<const uint8_t> bytes, const std::string& name) {
  switch (DetectFormat(bytes)) {
    case ImageFormat::kJpeg: {
      JpegInfo jpeg = ReadJpegInfo(bytes, name);
      ImageInfo info;
      info.format = ImageFormat::kJpeg;
      info.width = jpeg.width;
      info.height = jpeg.height;
      info.channels = jpeg.components;
      info.orientation = jpeg.orientation;
      info.progressive = jpeg.progressive;
      info.cmyk = jpeg.components == 4;
      return info;
    }
    case ImageFormat::kPng:
      return ReadPng(bytes, name, nullptr);
    case ImageFormat::kWebp:
      return ReadWebp(bytes, name, nullptr);
    default:
      Unsupported(bytes, name);
  }
}

void DecodeImage(std::span<const uint8_t> bytes, const std::string& name, bool apply_orientation,
                 RgbImage* out) {
  ImageInfo info;
  switch (DetectFormat(bytes)) {
    case ImageFormat::kJpeg:
      DecodeJpeg(bytes, name, {.apply_orientation = apply_orientation}, out);
      return;
    case ImageFormat::kPng:
      info = ReadPng(bytes, name, out);
      break;
    case ImageFormat::kWebp:
      info = ReadWebp(bytes, name, out);
      break;
    default:
      Unsupported(bytes, name);
  }
  if (apply_orientation) ApplyOrientation(info.orientation, out);
}

RgbImage ReadImage(const std::string& path, bool apply_orientation) {
  std::string bytes = ReadFile(path);
  RgbImage image;
  DecodeImage({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, path,
              apply_orientation, &image);
  return image;
}

}  // namespace xp::data
