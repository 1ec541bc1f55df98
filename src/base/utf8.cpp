#include "exp/base/utf8.h"

namespace xp {

size_t Utf8Length(std::string_view text) {
  if (text.empty()) return 0;
  auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && at(1) < 0xA0) || (first == 0xF0 && at(1) < 0x90);
  const bool beyond = (first == 0xED && at(1) > 0x9F) || (first == 0xF4 && at(1) > 0x8F);
  return overlong || beyond ? 0 : length;
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string ValidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

std::string_view Utf8Head(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  // The character at the cut begins at most three bytes before it; in what is no UTF-8, nowhere.
  for (size_t begin = most; begin + 3 >= most; --begin) {
    if ((static_cast<unsigned char>(text[begin]) & 0xC0) != 0x80) return text.substr(0, begin);
    if (begin == 0) break;
  }
  return text.substr(0, most);
}

std::string Abridged(std::string_view text, size_t most) {
  const std::string_view head = Utf8Head(text, most);
  return head.size() < text.size() ? std::string(head) + "..." : std::string(head);
}

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
