#include "src/snapshot/hash_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/hash.h"

namespace fs = std::filesystem;

namespace xp::snapshot {
namespace {

// The first line. Before, files were remembered whenever they had changed.
constexpr std::string_view kFormat = "exp content hashes 2";

// FAT counts in steps of two seconds; others in ticks of some milliseconds.
constexpr int64_t kTickNs = 2'000'000'000;

int64_t Nanoseconds(const timespec& t) { return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; }

}  // namespace

int64_t NowNs() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return Nanoseconds(now);
}

bool StatFile(const fs::path& file, FileKey& key) {
  struct stat info;
  if (::stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  // ctime too: it moves when a content is replaced and the mtime set back.
  key = {info.st_size, Nanoseconds(info.st_mtim), Nanoseconds(info.st_ctim),
         static_cast<int64_t>(info.st_ino)};
  return true;
}

HashCache::HashCache(fs::path file) : file_(std::move(file)) {
  if (file_.empty()) return;
  std::ifstream in(file_);
  std::string line;
  if (!std::getline(in, line) || line != kFormat) return;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    Entry e;
    std::string path;
    fields >> e.hash >> e.key.size >> e.key.mtime_ns >> e.key.ctime_ns >> e.key.inode >> path;
    if (!fields.fail() && e.hash.size() == 32 && path.size() == 32) entries_[path] = e;
  }
}

bool HashCache::Find(const std::string& path, const FileKey& key, std::string& hash) const {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(HashBytes(path).Hex());
  if (found == entries_.end() || found->second.key != key) return false;
  hash = found->second.hash;
  return true;
}

void HashCache::Put(const std::string& path, const FileKey& key, int64_t began_ns,
                    const std::string& hash) {
  if (std::max(key.mtime_ns, key.ctime_ns) + kTickNs >= began_ns) return;
  std::lock_guard lock(mutex_);
  entries_[HashBytes(path).Hex()] = {key, hash};
  changed_ = true;
}

void HashCache::Save() {
  if (file_.empty() || !changed_) return;
  std::string text = std::string(kFormat) + '\n';
  // A path may hold a secret: the file names its hash.
  for (const auto& [path, e] : entries_) {
    text += fmt::format("{} {} {} {} {} {}\n", e.hash, e.key.size, e.key.mtime_ns, e.key.ctime_ns,
                        e.key.inode, path);
  }
  try {
    WriteFileAtomic(file_, text);
  } catch (const Error&) {
  }
}

}  // namespace xp::snapshot
