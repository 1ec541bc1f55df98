#include "src/base/unfinished_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/system_advice.h"

namespace fs = std::filesystem;

namespace xp {
namespace {

constexpr char kMark[] = ".tmp.";

// Only who holds a file's lock may unlink or rename it, so the answer lasts as long as the lock.
bool StillAt(int fd, const fs::path& path) {
  struct stat open_file, named;
  return ::fstat(fd, &open_file) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

// A new file, locked; -1 where the name is taken or was taken away at once. A file system without
// locks has no way to tell, and nobody there takes files away.
int CreateLocked(const fs::path& path, const fs::path& target) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) {
    if (errno == EEXIST) return -1;
    throw JobError({.what = std::string("can't be created: ") + std::strerror(errno),
                    .where = target.string(),
                    .next = WriteAdvice(errno)});
  }
  bool ours = ::flock(fd, LOCK_EX | LOCK_NB) == 0 ? StillAt(fd, path) : errno != EWOULDBLOCK;
  if (ours) return fd;
  ::close(fd);
  return -1;
}

// Its size; -1 where it is being written or is no file of ours.
int64_t RemoveIfAbandoned(const fs::path& path, bool dry_run) {
  // Write access because NFS locks only what may be written; not through links.
  int fd = ::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat info;
  bool abandoned = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
                   ::flock(fd, LOCK_EX | LOCK_NB) == 0 && StillAt(fd, path) &&
                   (dry_run || ::unlink(path.c_str()) == 0);
  ::close(fd);
  return abandoned ? info.st_size : -1;
}

// "a.json" of "a.json.tmp.3"; empty for any other name.
std::string TargetName(const std::string& name) {
  size_t mark = name.rfind(kMark);
  if (mark == std::string::npos) return "";
  std::string number = name.substr(mark + sizeof(kMark) - 1);
  bool digits = !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
  return digits ? name.substr(0, mark) : "";
}

}  // namespace

UnfinishedFile::UnfinishedFile(fs::path target) : target_(std::move(target)) {
  constexpr int kMost = 1000;
  for (int n = 0; n < kMost && fd_ < 0; ++n) {
    path_ = target_;
    path_ += kMark + std::to_string(n);
    fd_ = CreateLocked(path_, target_);
    if (fd_ < 0 && RemoveIfAbandoned(path_, false) >= 0) fd_ = CreateLocked(path_, target_);
  }
  if (fd_ >= 0) return;
  throw JobError({.what = "can't be created: there are a thousand unfinished files beside it",
                  .where = target_.string(),
                  .next = "remove those that nobody is writing"});
}

UnfinishedFile::~UnfinishedFile() {
  if (fd_ < 0) return;
  if (!path_.empty()) ::unlink(path_.c_str());
  ::close(fd_);
}

void UnfinishedFile::Finish() {
  if (::fsync(fd_) != 0) {
    throw JobError({.what = std::string("can't be flushed to disk: ") + std::strerror(errno),
                    .where = target_.string(),
                    .next = WriteAdvice(errno)});
  }
  if (::rename(path_.c_str(), target_.c_str()) != 0) {
    throw JobError({.what = std::string("can't be renamed: ") + std::strerror(errno),
                    .where = target_.string(),
                    .next = WriteAdvice(errno)});
  }
  path_.clear();
}

Abandoned RemoveAbandoned(const fs::path& folder,
                          const std::function<bool(const std::string&)>& ours, bool dry_run) {
  std::vector<fs::path> candidates;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = TargetName(at->path().filename().string());
    if (!name.empty() && ours(name)) candidates.push_back(at->path());
  }
  Abandoned removed;
  for (const fs::path& path : candidates) {
    int64_t bytes = RemoveIfAbandoned(path, dry_run);
    if (bytes < 0) continue;
    ++removed.files;
    removed.bytes += bytes;
  }
  return removed;
}

}  // namespace xp
