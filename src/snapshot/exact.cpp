#include "src/snapshot/exact.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace fs = std::filesystem;

namespace xp::snapshot {
namespace {

bool ConfigBool(git_config* config, const char* name, bool fallback) {
  int value = 0;
  return git_config_get_bool(&value, config, name) == 0 ? value != 0 : fallback;
}

std::string ConfigText(git_config* config, const char* name) {
  Buffer value;
  return git_config_get_string_buf(&value.buf, config, name) == 0 ? value.Text() : "";
}

bool HasAttributes(git_repository* repo, git_index* index, git_config* config) {
  std::error_code error;
  if (fs::exists(fs::path(git_repository_commondir(repo)) / "info" / "attributes", error))
    return true;
  if (!ConfigText(config, "core.attributesfile").empty()) return true;
  const char* home = std::getenv("HOME");
  const char* xdg = std::getenv("XDG_CONFIG_HOME");
  fs::path user = xdg && *xdg ? fs::path(xdg) / "git" / "attributes"
                  : home      ? fs::path(home) / ".config" / "git" / "attributes"
                              : fs::path();
  if (fs::exists("/etc/gitattributes", error) || (!user.empty() && fs::exists(user, error)))
    return true;
  constexpr std::string_view kName = ".gitattributes";
  for (size_t i = 0; i < git_index_entrycount(index); ++i) {
    std::string_view path = git_index_get_byindex(index, i)->path;
    if (path == kName || path.ends_with("/.gitattributes")) return true;
  }
  return false;
}

std::string BlobBytes(git_repository* repo, const git_oid* id, bool& found) {
  git_blob* blob = nullptr;
  found = git_blob_lookup(&blob, repo, id) == 0;
  if (!found) return "";
  Blob owned(blob);
  return std::string(static_cast<const char*>(git_blob_rawcontent(blob)),
                     static_cast<size_t>(git_blob_rawsize(blob)));
}

// The SHA-256 that a git-lfs pointer names, where its content is at hand.
std::string KeptByLfs(git_repository* repo, const std::string& pointer) {
  constexpr std::string_view kOid = "oid sha256:";
  size_t at = pointer.find(kOid);
  if (pointer.size() > 1024 || pointer.rfind("version https://git-lfs", 0) != 0) return "";
  if (at == std::string::npos || pointer.size() < at + kOid.size() + 64) return "";
  std::string oid = pointer.substr(at + kOid.size(), 64);
  if (oid.find_first_not_of("0123456789abcdef") != std::string::npos) return "";
  std::error_code error;
  fs::path file = fs::path(git_repository_commondir(repo)) / "lfs" / "objects" / oid.substr(0, 2) /
                  oid.substr(2, 2) / oid;
  return fs::exists(file, error) ? oid : "";
}

}  // namespace

bool ReadRegular(const std::string& file, int64_t size, std::string& content) {
  // Since its size was asked it may have become a pipe, which would wait, or a link elsewhere.
  int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat info;
  content.resize(static_cast<size_t>(std::max<int64_t>(size, 0)));
  size_t done = 0;
  ssize_t n = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? 1 : -1;
  while (n > 0 && done < content.size()) {
    n = ::read(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR)
      n = 1;
    else if (n > 0)
      done += static_cast<size_t>(n);
  }
  int error = errno;
  ::close(fd);
  errno = error;
  content.resize(done);
  return n >= 0;
}

bool ReadTarget(const std::string& link, int64_t size, std::string& target) {
  target.resize(static_cast<size_t>(std::max<int64_t>(size, 0)) + 4096);
  ssize_t n = ::readlink(link.c_str(), target.data(), target.size());
  if (n < 0) return false;
  target.resize(static_cast<size_t>(n));
  return true;
}

std::string WithCrlf(const std::string& content) {
  std::string out;
  out.reserve(content.size() + content.size() / 16);
  for (size_t i = 0; i < content.size(); ++i) {
    if (content[i] == '\n' && (i == 0 || content[i - 1] != '\r')) out += '\r';
    out += content[i];
  }
  return out;
}

ExactCheck::ExactCheck(git_repository* repo, git_index* index, bool changed_attributes)
    : repo_(repo) {
  git_config* config = nullptr;
  if (git_repository_config_snapshot(&config, repo) != 0) return;
  GitHandle<git_config, git_config_free> owned(config);
  std::string autocrlf = ConfigText(config, "core.autocrlf");
  autocrlf_ = autocrlf == "input" || ConfigBool(config, "core.autocrlf", false);
  modes_ = ConfigBool(config, "core.filemode", true);
  links_ = ConfigBool(config, "core.symlinks", true);
  trusts_mtime_ = !ConfigBool(config, "core.trustctime", true) ||
                  ConfigText(config, "core.checkstat") == "minimal";
  attributes_ = changed_attributes || HasAttributes(repo, index, config);
}

// Whether git converts this file; `any_content`: in a way that may keep its size.
bool ExactCheck::Convertible(const git_index_entry* entry, bool& any_content) const {
  any_content = false;
  if (!attributes_) return autocrlf_;
  static constexpr std::array<const char*, 6> kNames = {"text",   "eol",   "crlf",
                                                        "filter", "ident", "working-tree-encoding"};
  std::array<const char*, 6> values{};
  std::array<const char*, 6> names = kNames;
  if (git_attr_get_many(values.data(), repo_, 0, entry->path, names.size(), names.data()) != 0)
    return true;
  auto set = [&](size_t i) {
    git_attr_value_t kind = git_attr_value(values[i]);
    return kind == GIT_ATTR_VALUE_TRUE || kind == GIT_ATTR_VALUE_STRING;
  };
  any_content = set(3) || set(4) || set(5);
  return autocrlf_ || any_content || set(0) || set(1) || set(2);
}

ExactCheck::Result ExactCheck::Compare(const git_index_entry* entry, const std::string& file,
                                       std::string& lfs_oid) const {
  bool hidden = (entry->flags & GIT_INDEX_ENTRY_VALID) ||
                (entry->flags_extended & GIT_INDEX_ENTRY_SKIP_WORKTREE);
  bool any_content = false;
  bool convertible = Convertible(entry, any_content);
  if (!hidden && !convertible && modes_ && links_ && !trusts_mtime_) return Result::kSame;
  struct stat info;
  if (::lstat(file.c_str(), &info) != 0) return Result::kDiffers;
  // Whoever writes a file may set its mtime back, but not its ctime.
  hidden = hidden ||
           (trusts_mtime_ && entry->ctime.seconds != static_cast<int32_t>(info.st_ctim.tv_sec));
  bool link = entry->mode == 0120000, executable = entry->mode == 0100755;
  if (link != bool(S_ISLNK(info.st_mode))) return Result::kDiffers;
  if (!link && executable != bool(info.st_mode & S_IXUSR)) return Result::kDiffers;
  if (!hidden && !convertible) return Result::kSame;
  if (link && !hidden) return Result::kSame;
  if (!hidden && !any_content) {
    // Line ends change the size.
    git_odb* odb = nullptr;
    size_t size = 0;
    git_object_t type = GIT_OBJECT_BLOB;
    if (git_repository_odb(&odb, repo_) != 0) return Result::kDiffers;
    GitHandle<git_odb, git_odb_free> owned(odb);
    int rc = git_odb_read_header(&size, &type, odb, &entry->id);
    if (rc == 0 && static_cast<off_t>(size) == info.st_size) return Result::kSame;
  }
  bool found = false;
  std::string blob = BlobBytes(repo_, &entry->id, found), content;
  if (!found) return Result::kDiffers;
  lfs_oid = KeptByLfs(repo_, blob);
  if (!lfs_oid.empty() && info.st_size != static_cast<off_t>(blob.size()) && !hidden)
    return Result::kLfs;
  // With each line end of two bytes it would be twice as long; what is longer needn't be read.
  if (!link && info.st_size > 2 * static_cast<off_t>(blob.size())) return Result::kDiffers;
  if (!(link ? ReadTarget(file, info.st_size, content) : ReadRegular(file, info.st_size, content)))
    return Result::kDiffers;
  if (content == blob) return Result::kSame;
  return !link && content == WithCrlf(blob) ? Result::kCrlf : Result::kDiffers;
}

}  // namespace xp::snapshot
