#include "src/config/python/text_search.h"

#include <algorithm>

#include "src/config/python/value.h"

namespace xp::config::python {
namespace {

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The length in bytes of the character at `at`, and of the one that ends before `end`.
size_t LengthAt(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && Continues(text[end])) ++end;
  return end - at;
}
size_t LengthBefore(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && Continues(text[at])) --at;
  return end - at;
}

// str.isspace() of one character.
bool IsBlank(std::string_view character) {
  const uint32_t code = CodePoint(character);
  return (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x20) || code == 0x85 ||
         code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
         code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool EndsLine(std::string_view character) {
  const uint32_t code = CodePoint(character);
  return (code >= 10 && code <= 13) || (code >= 0x1c && code <= 0x1e) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

template <typename Drop>
std::string_view Strip(std::string_view text, bool left, bool right, Drop drop) {
  while (left && !text.empty()) {
    const size_t length = LengthAt(text, 0);
    if (!drop(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (right && !text.empty()) {
    const size_t length = LengthBefore(text, text.size());
    if (!drop(text.substr(text.size() - length))) break;
    text.remove_suffix(length);
  }
  return text;
}

}  // namespace

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (static_cast<unsigned char>(c) & 0x80) == 0; });
}

std::string_view FirstCharacter(std::string_view text) {
  return text.empty() ? text : text.substr(0, LengthAt(text, 0));
}

std::string_view StripBlanks(std::string_view text, bool left, bool right) {
  return Strip(text, left, right, IsBlank);
}

std::string_view StripAny(std::string_view text, std::string_view what, bool left, bool right) {
  return Strip(text, left, right, [what](std::string_view character) {
    return what.find(character) != std::string_view::npos;
  });
}

std::vector<std::string> SplitBlanks(std::string_view text, int64_t most, bool from_right) {
  std::vector<std::string> parts;
  text = StripBlanks(text, !from_right, from_right);
  while (!text.empty() && (most < 0 || static_cast<int64_t>(parts.size()) < most)) {
    size_t length = 0;  // of the next word
    while (length < text.size()) {
      const size_t step =
          from_right ? LengthBefore(text, text.size() - length) : LengthAt(text, length);
      const size_t at = from_right ? text.size() - length - step : length;
      if (IsBlank(text.substr(at, step))) break;
      length += step;
    }
    if (from_right) {
      parts.emplace_back(text.substr(text.size() - length));
      text = StripBlanks(text.substr(0, text.size() - length), false, true);
    } else {
      parts.emplace_back(text.substr(0, length));
      text = StripBlanks(text.substr(length), true, false);
    }
  }
  if (!text.empty()) parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> SplitBy(std::string_view text, std::string_view separator, int64_t most,
                                 bool from_right) {
  std::vector<std::string> parts;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t hit = from_right ? text.rfind(separator) : text.find(separator);
    if (hit == std::string_view::npos) break;
    const std::string_view before = text.substr(0, hit);
    const std::string_view after = text.substr(hit + separator.size());
    parts.emplace_back(from_right ? after : before);
    text = from_right ? before : after;
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t from = 0;
  for (size_t at = 0; at < text.size();) {
    size_t length = LengthAt(text, at);
    if (!EndsLine(text.substr(at, length))) {
      at += length;
      continue;
    }
    if (text.substr(at, 2) == "\r\n") length = 2;
    lines.emplace_back(text.substr(from, at - from + (keep_ends ? length : 0)));
    at += length;
    from = at;
  }
  if (from < text.size()) lines.emplace_back(text.substr(from));
  return lines;
}

size_t CountCharacters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !Continues(c); }));
}

Window WindowOf(std::string_view text, int64_t from, int64_t to) {
  const auto size = static_cast<int64_t>(CountCharacters(text));
  from = std::max<int64_t>(from < 0 ? from + size : from, 0);
  to = std::min(std::max<int64_t>(to < 0 ? to + size : to, 0), size);
  Window window;
  if (from > to) return window;
  window.inside = true;
  window.characters = static_cast<size_t>(to - from);
  auto bytes = [text](int64_t characters) {
    size_t at = 0;
    for (; characters > 0; --characters) at += LengthAt(text, at);
    return at;
  };
  window.from = bytes(from);
  window.to = bytes(to);
  return window;
}

}  // namespace xp::config::python
