#include "src/data/text_lines.h"

#include <cstdint>
#include <string_view>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/file_kind.h"
#include "exp/base/utf8.h"

namespace xp::data {

std::vector<TextLine> ReadTextLines(const std::filesystem::path& path,
                                    const std::string& expected) {
  const std::string content = ReadFile(path);
  const std::string other =
      OtherKind({reinterpret_cast<const uint8_t*>(content.data()), content.size()});
  if (!other.empty()) {
    throw UsageError({.what = "this is " + other + ", not a list",
                      .where = path.string(),
                      .expected = expected,
                      .next = AdviceFor(other)});
  }
  constexpr std::string_view kSpace = " \t\r";
  std::string_view rest = content;
  if (rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
  std::vector<TextLine> lines;
  for (int number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() == rest.size() ? line.size() : line.size() + 1);
    const size_t first = line.find_first_not_of(kSpace);
    if (first == std::string_view::npos) continue;
    lines.push_back(
        {number, std::string(line.substr(first, line.find_last_not_of(kSpace) + 1 - first))});
  }
  return lines;
}

}  // namespace xp::data
