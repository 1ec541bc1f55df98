// The one tag of EXIF or XMP that matters for pixels: which way up the camera was.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace xp::data {

// Orientation 1..8 from an APP1 payload ("Exif\0\0" and a TIFF header) or from a bare TIFF header;
// 0 when there is none. Any bytes are safe. Source: CIPA DC-008 (EXIF 2.32), tag 0x0112.
int ExifOrientation(std::span<const uint8_t> bytes);

// The same from EXIF in hexadecimal digits, as ImageMagick wrote it into a text of a PNG ("Raw
// profile type exif") before there was a chunk for it.
int RawProfileOrientation(std::string_view text);

// The same from an XMP packet, which Lightroom and others write instead: tiff:Orientation as an
// attribute or an element. Where both are there EXIF counts, as for Pillow.
int XmpOrientation(std::span<const uint8_t> bytes);

}  // namespace xp::data
