// The PNG and WebP halves of image_io.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "exp/data/image_io.h"

namespace xp::data {

// Pillow's limit against decompression bombs, for every format.
constexpr int64_t kMaxPixels = 178956970;

// With `out` null only the header is read. Throw UsageError naming `name`; the orientation isn't
// applied.
ImageInfo ReadPng(std::span<const uint8_t> bytes, const std::string& name, RgbImage* out);
ImageInfo ReadWebp(std::span<const uint8_t> bytes, const std::string& name, RgbImage* out);

}  // namespace xp::data
