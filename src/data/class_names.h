// Names of classes: found in a label list's lines, listed in messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace xp::data {

// Classes by their names, and where each stands among them; of a name used twice, the first.
class ClassNames {
 public:
  explicit ClassNames(const std::vector<std::string>& names);

  std::optional<int32_t> Find(const std::string& name) const;

  // The file and the label of a line `<file> <label>`, either of which may have spaces: the label
  // is the longest class at the line's end, else the last word. Nothing where there is one word
  // only.
  std::optional<std::pair<std::string, std::string>> SplitLabel(const std::string& line) const;

 private:
  std::unordered_map<std::string, int32_t> places_;
  std::set<size_t, std::greater<>> lengths_;  // of the names, the longest first
};

// For a message: each name within `quote`, of many the first few and how many more there are.
std::string ListOfNames(const std::vector<std::string>& names, const char* quote = "");

}  // namespace xp::data
