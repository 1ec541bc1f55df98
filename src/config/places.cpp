#include "src/config/places.h"

#include <algorithm>
#include <tuple>

namespace xp::config {
namespace {

bool Before(const TextPlace& a, const TextPlace& b) {
  return std::tie(a.line, a.column) < std::tie(b.line, b.column);
}

}  // namespace

void TextPlace::See(std::string_view text) {
  for (char c : text) {
    if (c == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) {
      ++column;
    }
  }
}

void Places::Replaced(TextPlace from, TextPlace from_end, TextPlace to, TextPlace to_end) {
  replacements_.push_back({from, from_end, to, to_end});
}

Origin Places::InFile(const Origin& at) const {
  const TextPlace place{at.line, at.column};
  auto after = std::upper_bound(
      replacements_.begin(), replacements_.end(), place,
      [](const TextPlace& p, const Replacement& replacement) { return Before(p, replacement.to); });
  if (after == replacements_.begin()) return at;
  const Replacement& last = *std::prev(after);
  if (Before(place, last.to_end)) return {at.source, last.from.line, last.from.column};
  const bool same_line = place.line == last.to_end.line;
  return {at.source, place.line - last.to_end.line + last.from_end.line,
          same_line ? place.column - last.to_end.column + last.from_end.column : place.column};
}

}  // namespace xp::config
