#include "exp/base/utf8.h"

namespace xp {

void AppendUtf8(std::string& out, uint32_t code) {
  auto more = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    more(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    more(6);
    more(0);
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    more(12);
    more(6);
    more(0);
  }
}

}  // namespace xp
