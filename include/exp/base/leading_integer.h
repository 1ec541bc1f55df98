// Numbers in texts of the kernel and of tools.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace xp {

// The decimal number that `text` begins with, behind blanks: 4096 of " 4096 kB". nullopt where it
// begins with none, or with one beyond 64 bits.
std::optional<int64_t> LeadingInteger(std::string_view text);

}  // namespace xp
