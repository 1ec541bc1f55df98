#include "src/data/exif.h"

#include <cstddef>
#include <cstring>

namespace xp::data {
namespace {

// Bounds-checked integers of a TIFF block in its own byte order; 0 outside.
struct Tiff {
  std::span<const uint8_t> bytes;
  bool big;

  uint32_t Read(size_t at, int count) const {
    if (at > bytes.size() || bytes.size() - at < static_cast<size_t>(count)) return 0;
    uint32_t value = 0;
    for (int i = 0; i < count; ++i)
      value = value << 8 | bytes[at + static_cast<size_t>(big ? i : count - 1 - i)];
    return value;
  }
};

}  // namespace

int ExifOrientation(std::span<const uint8_t> bytes) {
  if (bytes.size() >= 6 && std::memcmp(bytes.data(), "Exif\0\0", 6) == 0) bytes = bytes.subspan(6);
  if (bytes.size() < 8) return 0;
  bool little = bytes[0] == 'I' && bytes[1] == 'I', big = bytes[0] == 'M' && bytes[1] == 'M';
  if (!little && !big) return 0;
  Tiff tiff{bytes, big};
  if (tiff.Read(2, 2) != 42) return 0;
  size_t at = tiff.Read(4, 4);
  uint32_t entries = tiff.Read(at, 2);
  for (uint32_t i = 0; i < entries && i < 512; ++i) {
    size_t entry = at + 2 + 12 * static_cast<size_t>(i);
    if (tiff.Read(entry, 2) != 0x0112) continue;
    uint32_t value = tiff.Read(entry + 8, 2);  // SHORT, in the value field itself
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 0;
  }
  return 0;
}

}  // namespace xp::data
