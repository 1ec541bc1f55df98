// What differs between the code of two records, file by file.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace xp::snapshot {

struct CodeChange {
  enum class Kind { kAdded, kRemoved, kChanged };
  Kind kind = Kind::kChanged;
  std::string path;               // as text: bytes that aren't UTF-8 are escaped
  size_t added = 0, removed = 0;  // lines; both 0 for a binary file
  std::string patch;              // unified; empty where none was asked for
};

struct CodeComparison {
  std::vector<CodeChange> changes;  // by path
  std::string note;                 // why it isn't complete: a commit that isn't at hand
};

using LoadObject = std::function<std::string(const std::string& hash)>;

// Two code documents; their objects are asked of `load_a` and `load_b`, commits of the repositories
// where the code was. Never throws for what is missing: `note` says so.
CodeComparison CompareCode(const std::string& code_a, const LoadObject& load_a,
                           const std::string& code_b, const LoadObject& load_b, bool patches);

}  // namespace xp::snapshot
