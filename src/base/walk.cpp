#include "exp/base/walk.h"

#include <algorithm>
#include <vector>

namespace fs = std::filesystem;

namespace xp {
namespace {

// Whether the last of these folders, each in the one before, is or holds one of the others.
bool GoesRound(const std::vector<fs::path>& folders) {
  const fs::path& last = folders.back();
  return std::any_of(folders.begin(), folders.end() - 1, [&](const fs::path& folder) {
    return std::mismatch(last.begin(), last.end(), folder.begin(), folder.end()).first ==
           last.end();
  });
}

}  // namespace

std::error_code WalkFiles(const fs::path& folder, const Walk& walk, fs::path* where) {
  std::error_code error, ignored;
  fs::path at = folder;
  fs::recursive_directory_iterator entries(folder, fs::directory_options::follow_directory_symlink,
                                           error);
  std::vector<fs::path> within = {fs::canonical(folder, ignored)};
  while (!error && entries != fs::end(entries)) {
    const fs::directory_entry& entry = *entries;
    at = entry.path();
    if (!entry.is_directory(ignored)) {
      walk.file(entry);
      at = at.parent_path();
    } else {
      within.resize(static_cast<size_t>(entries.depth()) + 1);
      within.push_back(fs::canonical(at, ignored));
      if (GoesRound(within) || (walk.enter && !walk.enter(at))) entries.disable_recursion_pending();
    }
    entries.increment(error);
  }
  if (error && where != nullptr) *where = at;
  return error;
}

}  // namespace xp
