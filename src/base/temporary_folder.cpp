#include "exp/base/temporary_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>

namespace fs = std::filesystem;

namespace xp {
namespace {

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Nobody holds it any more: a process's lock ends with it, however it ends. The younger ones may be
// about to be locked, and aren't touched.
bool IsLeft(int folder) {
  constexpr std::time_t kYoung = 600;  // seconds
  struct stat info {};
  return ::fstat(folder, &info) == 0 && info.st_uid == ::geteuid() &&
         std::time(nullptr) - info.st_mtime > kYoung && ::flock(folder, LOCK_EX | LOCK_NB) == 0;
}

void RemoveLeft(const fs::path& base, const std::string& prefix) {
  constexpr size_t kLetters = 6;
  std::error_code error;
  for (fs::directory_iterator it(base, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + kLetters) continue;
    const FileDescriptor folder(::open(it->path().c_str(), kFolder));
    std::error_code ignored;
    if (folder.good() && IsLeft(folder.get())) fs::remove_all(it->path(), ignored);
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder(const std::string& purpose) {
  std::error_code error;
  fs::path base = fs::temp_directory_path(error);
  if (error) base = "/tmp";  // where TMPDIR names no folder, the usual one may still do
  const std::string prefix = "exp-" + purpose + "-";
  RemoveLeft(base, prefix);
  std::string pattern = (base / (prefix + "XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr) return;
  path_ = pattern;
  lock_ = std::make_unique<FileDescriptor>(::open(path_.c_str(), kFolder));
  if (lock_->good()) ::flock(lock_->get(), LOCK_EX | LOCK_NB);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace xp
