// Lists that people write: a file of lines.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
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

// The file and the label of a line `<file> <label>`, either of which may have spaces: the label is
// the longest text at the line's end that `is_class`, else the last word. Nothing where there is
// one word only.
std::optional<std::pair<std::string, std::string>> SplitLabel(
    const std::string& line, const std::function<bool(const std::string&)>& is_class);

}  // namespace xp::data
