// The one tag of EXIF or XMP that matters for pixels: which way up the camera was.
#pragma once

#include <cstdint>
#include <span>

namespace xp::data {

// Orientation 1..8 from an APP1 payload ("Exif\0\0" and a TIFF header) or from a bare TIFF header;
// 0 when there is none. Any bytes are safe. Source: CIPA DC-008 (EXIF 2.32), tag 0x0112.
int ExifOrientation(std::span<const uint8_t> bytes);

// The same from an XMP packet, which Lightroom and others write instead: tiff:Orientation as an
// attribute or an element. Where both are there EXIF counts, as for Pillow.
int XmpOrientation(std::span<const uint8_t> bytes);

}  // namespace xp::data
