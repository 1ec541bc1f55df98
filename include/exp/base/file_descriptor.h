// A file descriptor that is closed on every way out.
#pragma once

#include <unistd.h>

namespace xp {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}  // of open(2): below 0 where that failed
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const { return fd_; }
  bool good() const { return fd_ >= 0; }

 private:
  int fd_;
};

}  // namespace xp
