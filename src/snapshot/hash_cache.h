// Remembers content hashes by path, size, modification time and inode; private to src/snapshot.
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

// False where there is no regular file.
bool StatFile(const std::filesystem::path& file, FileKey& key);

class HashCache {
 public:
  // Reads what is there; a damaged or absent file is an empty cache. An empty path: never saves.
  explicit HashCache(std::filesystem::path file);

  bool Find(const std::string& path, const FileKey& key, std::string& hash) const;
  void Put(const std::string& path, const FileKey& key, const std::string& hash);
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
