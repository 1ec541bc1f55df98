// Aligned columns for a terminal.
#pragma once

#include <string>
#include <vector>

namespace xp::cli {

// Prints `rows` under `header`, columns separated by two spaces; characters count, not bytes. A
// long cell is cut to `limit` characters.
void PrintTable(const std::vector<std::string>& header,
                const std::vector<std::vector<std::string>>& rows, size_t limit = 60);

// Characters of valid UTF-8.
size_t Width(const std::string& text);
// At most `limit` characters, "..." behind what was cut; line ends and tabs become
// spaces, other control characters '?'.
std::string Cut(const std::string& text, size_t limit);

// A curve drawn with block characters, `width` x `height` characters, with its scale at the left.
std::string Plot(const std::vector<double>& values, size_t width, size_t height);

}  // namespace xp::cli
