#include "exp/base/printable.h"

namespace xp {

std::string Printable(std::string_view text, bool lines) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    // U+0080 .. U+009F, which some terminals obey too, are 0xC2 0x80 .. 0xC2 0x9F.
    bool c1 = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0 &&
              static_cast<unsigned char>(text[i + 1]) >= 0x80;
    if (c1) c = static_cast<unsigned char>(text[++i]);
    bool kept = !c1 && ((c >= 0x20 && c != 0x7F) || (lines && (c == '\n' || c == '\t')));
    if (kept) {
      out.push_back(static_cast<char>(c));
    } else {
      out += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    }
  }
  return out;
}

}  // namespace xp
