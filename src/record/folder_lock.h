// The lock under which a store is created, switched to WAL and migrated: SQLite's own busy handler
// isn't called for a change of the journal mode. Private to src/record.
#pragma once

#include <chrono>
#include <filesystem>

namespace xp::record {

class FolderLock {
 public:
  // Waits for who holds it; throws JobError when that takes longer than `patience`, as with a
  // process that was stopped, or when the file can't be made.
  explicit FolderLock(const std::filesystem::path& folder,
                      std::chrono::milliseconds patience = std::chrono::minutes(1));
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace xp::record
