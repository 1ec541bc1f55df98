#include "src/data/exif.h"

#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

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
    // In the value field itself, as a SHORT, or as the LONG or signed integer that some programs
    // write.
    constexpr uint32_t kShort = 3, kLong = 4, kSignedShort = 8, kSignedLong = 9;
    uint32_t type = tiff.Read(entry + 2, 2);
    const bool of_two = type == kShort || type == kSignedShort;
    if ((!of_two && type != kLong && type != kSignedLong) || tiff.Read(entry + 4, 4) != 1) return 0;
    uint32_t value = tiff.Read(entry + 8, of_two ? 2 : 4);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 0;
  }
  return 0;
}

int RawProfileOrientation(std::string_view text) {
  // An empty line, the profile's name, its size, then digits in lines.
  for (int line = 0; line < 3; ++line) {
    const size_t end = text.find('\n');
    if (end == text.npos) return 0;
    text.remove_prefix(end + 1);
  }
  std::vector<uint8_t> bytes;
  int high = -1;
  for (char c : text) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) continue;
    if (high >= 0) bytes.push_back(static_cast<uint8_t>(high * 16 + digit));
    high = high >= 0 ? -1 : digit;
  }
  return ExifOrientation(bytes);
}

int XmpOrientation(std::span<const uint8_t> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = text.find(kName); at != text.npos; at = text.find(kName, at + 1)) {
    std::string_view rest = text.substr(at + kName.size());
    size_t skipped = rest.starts_with(">") ? 1 : rest.starts_with("=\"") ? 2 : 0;
    if (skipped == 0 || rest.size() <= skipped) continue;
    char digit = rest[skipped];
    return digit >= '1' && digit <= '8' ? digit - '0' : 0;
  }
  return 0;
}

}  // namespace xp::data
