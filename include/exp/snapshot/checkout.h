// Builds the tree that ran again, from its record.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace xp::snapshot {

struct CheckoutReport {
  int64_t files = 0, bytes = 0;
  // What can't be as it was, and why: files that were left out, secrets that were removed.
  std::vector<std::string> missing;
};

// `load` gives an object's bytes by hash, or throws. `target` is absent or empty, or a clean work
// tree of a clone that has the commit, which is then moved to it. Commits are looked for in that
// clone, in `repository` (may be empty), and where the code was. Throws UsageError naming the
// commit and the remotes where history isn't at hand; JobError where the target can't be written.
CheckoutReport RebuildTree(const std::string& code_json,
                           const std::function<std::string(const std::string&)>& load,
                           const std::filesystem::path& repository,
                           const std::filesystem::path& target);

}  // namespace xp::snapshot
