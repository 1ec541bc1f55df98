#include <fmt/format.h>
#include <webp/decode.h>

#include <cstring>

#include "exp/base/error.h"
#include "src/data/exif.h"
#include "src/data/png_webp.h"

namespace xp::data {
namespace {

[[noreturn]] void Throw(const std::string& name, const std::string& what) {
  throw UsageError({.what = "can't be decoded as a WebP: " + what,
                    .where = name,
                    .expected = "a complete WebP image that is not animated",
                    .next = "replace the file"});
}

const char* Reason(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "the file is truncated";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "a feature that isn't supported";
    default:
      return "the file is damaged";
  }
}

// RIFF chunks: a four-letter name, a little-endian size, data padded to an even size.
// Source: https://developers.google.com/speed/webp/docs/riff_container
int Orientation(std::span<const uint8_t> bytes) {
  int from_xmp = 0;
  size_t at = 12;
  while (at + 8 <= bytes.size()) {
    size_t size = bytes[at + 4] | bytes[at + 5] << 8 | bytes[at + 6] << 16 |
                  static_cast<size_t>(bytes[at + 7]) << 24;
    size_t left = bytes.size() - at - 8;
    std::span<const uint8_t> data = bytes.subspan(at + 8, std::min(size, left));
    if (std::memcmp(&bytes[at], "EXIF", 4) == 0) {
      if (int orientation = ExifOrientation(data)) return orientation;
    }
    if (std::memcmp(&bytes[at], "XMP ", 4) == 0 && from_xmp == 0) from_xmp = XmpOrientation(data);
    if (size >= left) break;
    at += 8 + size + (size & 1);
  }
  return from_xmp;
}

}  // namespace

ImageInfo ReadWebp(std::span<const uint8_t> bytes, const std::string& name, RgbImage* out) {
  WebPBitstreamFeatures features;
  VP8StatusCode status = WebPGetFeatures(bytes.data(), bytes.size(), &features);
  if (status != VP8_STATUS_OK) Throw(name, Reason(status));
  if (features.has_animation) Throw(name, "it is animated");
  if (static_cast<int64_t>(features.width) * features.height > kMaxPixels)
    Throw(name, "more pixels than the limit of 178,956,970");
  ImageInfo info;
  info.format = ImageFormat::kWebp;
  info.width = features.width;
  info.height = features.height;
  info.alpha = features.has_alpha != 0;
  info.channels = info.alpha ? 4 : 3;
  if (int orientation = Orientation(bytes)) info.orientation = orientation;
  if (out == nullptr) return info;
  out->Reset(info.width, info.height);
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0)
    throw JobError({.what = "libwebp doesn't fit its headers", .where = name});
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out->pixels.data();
  config.output.u.RGBA.stride = info.width * 3;
  config.output.u.RGBA.size = out->pixels.size();
  status = WebPDecode(bytes.data(), bytes.size(), &config);
  if (status != VP8_STATUS_OK) Throw(name, Reason(status));
  return info;
}

}  // namespace xp::data
