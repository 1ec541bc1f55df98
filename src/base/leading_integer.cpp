#include "exp/base/leading_integer.h"

#include <charconv>

namespace xp {

std::optional<int64_t> LeadingInteger(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return std::nullopt;
  int64_t value = 0;
  auto result = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  return result.ec == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace xp
