// Lists that people write: a file of lines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace xp::data {

struct TextLine {
  int number = 0;    // from 1
  std::string text;  // without white space around it; never empty
};

// The lines of a text file that aren't blank. A byte order mark and line ends of Windows are passed
// over. Throws UsageError for what can't be read or is of another kind (UTF-16, gzip, ...), naming
// what was `expected`.
std::vector<TextLine> ReadTextLines(const std::filesystem::path& path, const std::string& expected);

}  // namespace xp::data
