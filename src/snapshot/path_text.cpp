#include "src/snapshot/path_text.h"

#include <fmt/format.h>

#include <charconv>

#include "exp/base/utf8.h"

namespace xp::snapshot {

std::string PathText(const std::string& bytes) {
  if (IsValidUtf8(bytes)) return bytes;
  std::string out;
  for (unsigned char c : bytes) {
    if (c == '\\')
      out += "\\\\";
    else if (c < 0x80)
      out += static_cast<char>(c);
    else
      out += fmt::format("\\x{:02x}", c);
  }
  return out;
}

std::string PathBytes(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned int byte = 0;
    const char* hex = text.data() + i + 2;
    if (text[i] != '\\') {
      out += text[i];
    } else if (text.substr(i, 2) == "\\\\") {
      out += text[i++];
    } else if (text.substr(i, 2) == "\\x" && i + 4 <= text.size() &&
               std::from_chars(hex, hex + 2, byte, 16).ptr == hex + 2) {
      out += static_cast<char>(byte);
      i += 3;
    } else {
      return text;
    }
  }
  // A name of valid UTF-8 was written as it is, its backslashes, too.
  return PathText(out) == text ? out : text;
}

}  // namespace xp::snapshot
