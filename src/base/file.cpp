#include "exp/base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "exp/base/error.h"
#include "exp/base/file_descriptor.h"
#include "exp/base/system_advice.h"
#include "src/base/unfinished_file.h"

namespace xp {
namespace {

void WriteAll(int fd, std::string_view content, const std::filesystem::path& path) {
  while (!content.empty()) {
    ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      throw JobError({.what = std::string("writing failed: ") + std::strerror(errno),
                      .where = path.string(),
                      .next = WriteAdvice(errno)});
    }
    content.remove_prefix(static_cast<size_t>(n));
  }
}

void SyncFolder(const std::filesystem::path& folder) {
  const FileDescriptor opened(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.good()) ::fsync(opened.get());
}

}  // namespace

std::string ReadFile(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.good()) {
    throw UsageError({.what = std::string("can't be opened: ") + std::strerror(errno),
                      .where = path.string(),
                      .next = ReadAdvice(errno)});
  }
  std::string content;
  char buffer[1 << 16];
  while (true) {
    ssize_t n = ::read(file.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      throw UsageError({.what = std::string("can't be read: ") + std::strerror(errno),
                        .where = path.string(),
                        .next = ReadAdvice(errno)});
    }
    if (n == 0) return content;
    content.append(buffer, static_cast<size_t>(n));
  }
}

void WriteFileAtomic(const std::filesystem::path& path, std::string_view content) {
  WriteFileAtomic(path, std::span<const std::string_view>(&content, 1));
}

void WriteFileAtomic(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  std::error_code unknown;
  std::filesystem::file_status there = std::filesystem::status(path, unknown);
  if (std::filesystem::is_character_file(there) || std::filesystem::is_fifo(there)) {
    // /dev/stdout, /dev/null: a rename would put a file in its place.
    const FileDescriptor device(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!device.good()) {
      throw JobError({.what = std::string("can't be opened: ") + std::strerror(errno),
                      .where = path.string(),
                      .next = WriteAdvice(errno)});
    }
    for (std::string_view piece : pieces) WriteAll(device.get(), piece, path);
    return;
  }
  UnfinishedFile file(path);
  for (std::string_view piece : pieces) WriteAll(file.fd(), piece, path);
  file.Finish();
  SyncFolder(path.parent_path());
}

}  // namespace xp
