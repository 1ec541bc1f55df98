#include "src/snapshot/redact_file.h"

#include <algorithm>
#include <cstdint>

#include "exp/base/utf8.h"

namespace xp::snapshot {
namespace {

uint32_t Unit(const std::string& bytes, size_t at, bool big) {
  unsigned char a = static_cast<unsigned char>(bytes[at]),
                b = static_cast<unsigned char>(bytes[at + 1]);
  return big ? a * 256u + b : b * 256u + a;
}

// A lone surrogate becomes three bytes, as CESU-8 writes it, so that the way back is exact.
std::string FromUtf16(const std::string& bytes, bool big) {
  std::string out;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    uint32_t c = Unit(bytes, i, big);
    if (c >= 0xD800 && c < 0xDC00 && i + 3 < bytes.size()) {
      uint32_t low = Unit(bytes, i + 2, big);
      if (low >= 0xDC00 && low < 0xE000) {
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        i += 2;
      }
    }
    AppendUtf8(out, c);
  }
  return out;
}

std::string ToUtf16(const std::string& text, bool big) {
  std::string out;
  auto put = [&](uint32_t unit) {
    char high = static_cast<char>(unit >> 8), low = static_cast<char>(unit & 255);
    out += big ? high : low;
    out += big ? low : high;
  };
  for (size_t i = 0; i < text.size();) {
    unsigned char lead = static_cast<unsigned char>(text[i]);
    size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t c = size == 1 ? lead : lead & (0x7Fu >> size);
    for (size_t k = 1; k < size && i + k < text.size(); ++k) {
      c = c << 6 | (static_cast<unsigned char>(text[i + k]) & 63u);
    }
    i += size;
    if (c >= 0x10000) {
      put(0xD800 + ((c - 0x10000) >> 10));
      put(0xDC00 + ((c - 0x10000) & 0x3FF));
    } else {
      put(c);
    }
  }
  return out;
}

}  // namespace

namespace {

// PostgreSQL's password file: lines "host:port:database:user:password".
void LearnPgpass(const std::string& content, Redactor& redactor) {
  for (size_t at = 0; at < content.size();) {
    size_t end = std::min(content.find('\n', at), content.size()), field = at;
    for (int i = 0; i < 4 && field <= end; ++i) field = std::min(content.find(':', field), end) + 1;
    if (field < end && content[at] != '#') {
      redactor.Learn(content.substr(field, end - field), "named-secret");
    }
    at = end + 1;
  }
}

}  // namespace

std::string RedactFile(const std::string& content, const std::string& place, Redactor& redactor) {
  if (place.ends_with("pgpass") || place.ends_with("pgpass.conf")) LearnPgpass(content, redactor);
  bool little = content.substr(0, 2) == "\xFF\xFE", big = content.substr(0, 2) == "\xFE\xFF";
  if (little || big) {
    std::string text = FromUtf16(content, big), clean = redactor.Text(text, place);
    return clean == text ? content : ToUtf16(clean, big);
  }
  return redactor.Text(content, place);
}

}  // namespace xp::snapshot
