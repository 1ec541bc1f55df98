#include "exp/base/walk.h"

#include <algorithm>
#include <vector>

namespace fs = std::filesystem;

namespace xp {
namespace {

class Walker {
 public:
  explicit Walker(const Walk& walk) : walk_(walk) {}

  void List(const fs::path& folder) {
    std::error_code ignored;
    within_.push_back(fs::canonical(folder, ignored));
    if (!GoesRound()) ListEntries(folder);
    within_.pop_back();
  }

  std::error_code error;
  fs::path where;  // of the error

 private:
  // Whether the last of the folders, each in the one before, is or holds one of the others.
  bool GoesRound() const {
    const fs::path& last = within_.back();
    if (last.empty()) return false;  // it is gone: listing it says so
    return std::any_of(within_.begin(), within_.end() - 1, [&](const fs::path& folder) {
      return std::mismatch(last.begin(), last.end(), folder.begin(), folder.end()).first ==
             last.end();
    });
  }

  void ListEntries(const fs::path& folder) {
    std::error_code its;
    for (fs::directory_iterator entries(folder, its), end; !its && entries != end;
         entries.increment(its)) {
      Take(*entries);
      if (ended_) return;
    }
    if (!its || (walk_.pass_over && within_.size() > 1)) return;
    error = its;
    where = folder;
    ended_ = true;
  }

  void Take(const fs::directory_entry& entry) {
    std::error_code ignored;
    if (walk_.more && !walk_.more()) {
      ended_ = true;
    } else if (!entry.is_directory(ignored)) {
      walk_.file(entry);
    } else if (!walk_.enter || walk_.enter(entry.path())) {
      List(entry.path());
    }
  }

  const Walk& walk_;
  std::vector<fs::path> within_;  // the folders that are being listed, as they really are
  bool ended_ = false;
};

}  // namespace

std::error_code WalkFiles(const fs::path& folder, const Walk& walk, fs::path* where) {
  Walker walker(walk);
  walker.List(folder);
  if (walker.error && where != nullptr) *where = walker.where;
  return walker.error;
}

}  // namespace xp
