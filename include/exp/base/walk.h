// The files below a folder, also behind links to folders.
#pragma once

#include <filesystem>
#include <functional>
#include <system_error>

namespace xp {

struct Walk {
  // Whether to look into a folder; all where it is empty.
  std::function<bool(const std::filesystem::path& folder)> enter;
  // Gets all that is no folder, in no order: files, links that lead nowhere, pipes. Its path begins
  // with the folder as it was named.
  std::function<void(const std::filesystem::directory_entry& entry)> file;
  // Asked before each entry, where it isn't empty: false ends the walk.
  std::function<bool()> more;
  // A folder below that can't be listed is passed over. Else it ends the walk.
  bool pass_over = false;
};

// Links to folders are followed, but for those that go round: to a folder that holds the link. What
// can't be listed ends it: the error, and with `where` the folder.
std::error_code WalkFiles(const std::filesystem::path& folder, const Walk& walk,
                          std::filesystem::path* where = nullptr);

}  // namespace xp
