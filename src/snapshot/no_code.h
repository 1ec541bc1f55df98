// What of a work tree is no code; private to src/snapshot.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "exp/snapshot/code.h"
#include "src/snapshot/git.h"

namespace xp::snapshot {

class NoCode {
 public:
  // Folders count by the names they are given and by those behind links on the way to them.
  explicit NoCode(const CodeOptions& options);

  // Whether the file or folder lies in one of CodeOptions::exclude.
  bool Excluded(const std::filesystem::path& path) const;
  // Whether an untracked file or folder lies in one of CodeOptions::outputs, and is none of the
  // sources that somebody may have put there beside what git tracks (`index`, of `workdir`; null:
  // nothing is tracked).
  bool IsOutput(const std::filesystem::path& path, const std::string& workdir, git_index* index);

 private:
  bool HoldsTracked(const std::string& folder, const std::string& workdir, git_index* index);

  std::set<std::string> exclude_, outputs_;
  std::map<std::string, bool> tracked_;  // by work tree and folder
};

}  // namespace xp::snapshot
