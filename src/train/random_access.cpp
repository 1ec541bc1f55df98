#include "src/train/random_access.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "exp/base/error.h"
#include "exp/base/system_advice.h"

namespace xp::train {

RandomAccess::RandomAccess(const std::filesystem::path& path)
    : path_(path.string()),
      fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a pipe isn't waited for
  if (fd_ < 0) {
    throw UsageError({.what = fmt::format("can't be opened: {}", std::strerror(errno)),
                      .where = path_,
                      .next = ReadAdvice(errno)});
  }
  struct stat status {};
  if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd_);
    throw UsageError({.what = S_ISDIR(status.st_mode) ? "is a folder" : "is not a regular file",
                      .where = path_,
                      .expected = "a file with weights",
                      .next = "give the path of a .safetensors or .pth file"});
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

RandomAccess::~RandomAccess() { ::close(fd_); }

void RandomAccess::ReadAt(uint64_t offset, void* to, size_t count) const {
  auto* at = static_cast<char*>(to);
  while (count > 0) {
    ssize_t n = ::pread(fd_, at, count, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      throw UsageError(
          {.what = n < 0 ? fmt::format("can't be read: {}", std::strerror(errno))
                         : fmt::format("ends at byte {}, {} bytes early", offset, count),
           .where = path_,
           .next = n < 0 ? ReadAdvice(errno) : "the file is cut off; fetch or write it again"});
    }
    at += n;
    offset += static_cast<uint64_t>(n);
    count -= static_cast<size_t>(n);
  }
}

std::vector<std::byte> RandomAccess::ReadAt(uint64_t offset, size_t count) const {
  std::vector<std::byte> bytes(count);
  ReadAt(offset, bytes.data(), count);
  return bytes;
}

}  // namespace xp::train
