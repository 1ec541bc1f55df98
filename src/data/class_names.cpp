#include "src/data/class_names.h"

#include <fmt/format.h>

#include <string_view>

#include "exp/base/utf8.h"

namespace xp::data {

ClassNames::ClassNames(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    places_.emplace(names[i], static_cast<int32_t>(i));
    lengths_.insert(names[i].size());
  }
}

std::optional<int32_t> ClassNames::Find(const std::string& name) const {
  const auto place = places_.find(name);
  return place == places_.end() ? std::nullopt : std::optional(place->second);
}

std::optional<std::pair<std::string, std::string>> ClassNames::SplitLabel(
    const std::string& line) const {
  constexpr std::string_view kSpace = " \t";
  size_t space = line.find_last_of(kSpace);  // before the label
  if (space == std::string::npos) return std::nullopt;
  // By the lengths of the names: a line of a million words isn't looked up from each word on.
  for (size_t length : lengths_) {
    if (length >= line.size()) continue;
    const size_t at = line.size() - length - 1;
    if (kSpace.find(line[at]) == std::string_view::npos || !Find(line.substr(at + 1))) continue;
    space = at;
    break;
  }
  const size_t end = line.find_last_not_of(kSpace, space);  // the line doesn't begin with space
  return std::pair(line.substr(0, end + 1), line.substr(space + 1));
}

std::string ListOfNames(const std::vector<std::string>& names, const char* quote) {
  constexpr size_t kShown = 20, kLongest = 100;
  std::string list;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == kShown) return list + fmt::format(", and {} more", names.size() - i);
    list += fmt::format("{}{}{}{}", i == 0 ? "" : ", ", quote, Abridged(names[i], kLongest), quote);
  }
  return list;
}

}  // namespace xp::data
