// Base64 with padding and without line breaks (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace xp {

std::string EncodeBase64(std::string_view bytes);

// Nothing for another alphabet, whitespace, a length that isn't a multiple of 4, or padding that
// isn't at the end.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace xp
