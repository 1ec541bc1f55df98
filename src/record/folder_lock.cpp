#include "src/record/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "exp/base/error.h"
#include "exp/base/system_advice.h"

namespace fs = std::filesystem;

namespace xp::record {

FolderLock::FolderLock(const fs::path& folder, std::chrono::milliseconds patience) {
  const fs::path file = folder / "lock";
  fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    throw JobError({.what = std::string("the store's lock can't be made: ") + std::strerror(errno),
                    .where = file.string(),
                    .next = WriteAdvice(errno)});
  }
  const auto end = std::chrono::steady_clock::now() + patience;
  // Other failures than a holder (no locks on this file system) leave the store usable by one.
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
    if (std::chrono::steady_clock::now() >= end) {
      ::close(fd_);
      throw JobError({.what = "another process holds the store's lock, to make or to migrate it, "
                              "and doesn't give it back",
                      .where = file.string(),
                      .expected = "a lock that is held for a moment",
                      .next = "see who holds it with `fuser " + file.string() +
                              "`, and whether that is stopped"});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

FolderLock::~FolderLock() { ::close(fd_); }

}  // namespace xp::record
