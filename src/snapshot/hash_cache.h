// Remembers content hashes by path, size, times of modification and change, and inode; private to
// src/snapshot.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <unordered_map>

namespace xp::snapshot {

struct FileKey {
  int64_t size = 0, mtime_ns = 0, ctime_ns = 0, inode = 0;
  bool operator==(const FileKey&) const = default;
};

// The clock that file systems stamp with.
int64_t NowNs();

// False where there is no regular file.
bool StatFile(const std::filesystem::path& file, FileKey& key);

class HashCache {
 public:
  // Reads what is there; a damaged or absent file is an empty cache. An empty path: never saves.
  explicit HashCache(std::filesystem::path file);

  bool Find(const std::string& path, const FileKey& key, std::string& hash) const;
  // `key` is of before the content was read, from `began_ns` on (of NowNs). A file that changed a
  // moment before isn't remembered: it could change again within the same tick of its file system's
  // clock, and then no later look would tell.
  void Put(const std::string& path, const FileKey& key, int64_t began_ns, const std::string& hash);
  // Replaces the file if something was put; failing to is harmless.
  void Save();

 private:
  struct Entry {
    FileKey key;
    std::string hash;
  };
  std::filesystem::path file_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
  bool changed_ = false;
};

}  // namespace xp::snapshot
