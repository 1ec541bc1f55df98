// A file under a name of its own until it is whole; private to src/base.
#pragma once

#include <filesystem>

namespace xp {

// "<target>.tmp.N" with the smallest N that nobody is writing, locked (flock) as long as this
// lives: that is how a file being written is told from one that a killed process left, whatever its
// number says. Process ids can't tell them apart: they are used again, and containers have their
// own.
class UnfinishedFile {
 public:
  // Throws JobError: it can't be created.
  explicit UnfinishedFile(std::filesystem::path target);
  // Removes the file unless it was finished.
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  int fd() const { return fd_; }
  // Flushes to disk and renames over the target. Throws JobError.
  void Finish();

 private:
  std::filesystem::path target_, path_;
  int fd_ = -1;
};

}  // namespace xp
