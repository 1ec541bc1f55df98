// Reading at a place in a file. pread rather than mmap: a file that shrinks while it is read must
// give an error message, not SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace xp::train {

class RandomAccess {
 public:
  // Throws UsageError where it can't be opened or is no regular file.
  explicit RandomAccess(const std::filesystem::path& path);
  ~RandomAccess();
  RandomAccess(const RandomAccess&) = delete;
  RandomAccess& operator=(const RandomAccess&) = delete;

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // Throws UsageError where fewer bytes are there. Callers check sizes against size() before they
  // allocate.
  void ReadAt(uint64_t offset, void* to, size_t count) const;
  std::vector<std::byte> ReadAt(uint64_t offset, size_t count) const;

 private:
  std::string path_;
  int fd_;
  uint64_t size_ = 0;
};

}  // namespace xp::train
