// This machine.
#include <fcntl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "exp/base/child_process.h"
#include "exp/base/file_descriptor.h"
#include "exp/base/library_version.h"
#include "exp/doctor/system.h"

namespace fs = std::filesystem;

namespace xp::doctor {
namespace {

constexpr size_t kMostText = size_t{16} << 20;

// Never waits: a pipe or a device that has nothing gives nothing.
std::optional<std::string> ReadText(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file.good() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return std::nullopt;
  }
  std::string text;
  char buffer[65536];
  while (text.size() < kMostText) {
    ssize_t n = ::read(file.get(), buffer, sizeof(buffer));
    if (n < 0 && text.empty()) return std::nullopt;
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

// A record is "priority,sequence,microseconds,flags;text" (Documentation/ABI/testing/dev-kmsg).
std::optional<std::string> ReadKmsg() {
  FileDescriptor file(::open("/dev/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.good()) return std::nullopt;
  std::string text;
  char record[8192];
  for (int i = 0; i < 100000; ++i) {
    ssize_t n = ::read(file.get(), record, sizeof(record));
    if (n < 0 && errno == EPIPE) continue;  // overwritten while we read: the next one
    if (n <= 0) break;
    std::string_view line(record, static_cast<size_t>(n));
    size_t at = line.find(';');
    text += line.substr(at == std::string_view::npos ? 0 : at + 1);
  }
  return text;
}

std::optional<std::string> ReadKlog() {
  constexpr int kReadAll = 3, kSize = 10;  // syslog(2)
  int size = ::klogctl(kSize, nullptr, 0);
  if (size <= 0) return std::nullopt;
  std::string text(static_cast<size_t>(size), '\0');
  int n = ::klogctl(kReadAll, text.data(), size);
  if (n < 0) return std::nullopt;
  text.resize(static_cast<size_t>(n));
  return text;
}

class HostSystem : public System {
 public:
  explicit HostSystem(std::string root) : root_(std::move(root)) {}

  bool IsHere() const override { return root_.empty(); }

  std::optional<std::string> Text(const std::string& path) const override {
    return ReadText(root_ + path);
  }

  std::optional<FileBytes> Bytes(const std::string& path) const override {
    std::string full = root_ + path;
    FileDescriptor file(::open(full.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat info {};
    if (!file.good() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
      return std::nullopt;
    }
    auto size = static_cast<size_t>(info.st_size);
    if (size == 0) return FileBytes{};
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED) return std::nullopt;
    std::shared_ptr<const void> owner(data, [size](void* p) { ::munmap(p, size); });
    return FileBytes{owner, {static_cast<const char*>(data), size}};
  }

  bool Exists(const std::string& path) const override {
    std::error_code error;
    return fs::exists(root_ + path, error);
  }

  bool IsForbidden(const std::string& path) const override {
    return ::access((root_ + path).c_str(), R_OK) != 0 && errno == EACCES;
  }

  std::string RealPath(const std::string& path) const override {
    std::error_code error;
    fs::path real = fs::canonical(root_ + path, error);
    if (error) return path;
    std::string text = real.string();
    return text.starts_with(root_) ? text.substr(root_.size()) : text;
  }

  std::vector<std::string> Names(const std::string& folder) const override {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(root_ + folder, error), end; !error && it != end;
         it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::optional<Space> SpaceAt(const std::string& path) const override {
    if (!root_.empty()) return std::nullopt;  // it isn't that machine's disk
    struct statvfs info {};
    // A folder that will be made later is on its parent's file system.
    fs::path at = path;
    std::error_code error;
    while (!fs::exists(at, error) && at.has_parent_path() && at != at.parent_path()) {
      at = at.parent_path();
    }
    if (at.empty()) at = ".";
    if (::statvfs(at.c_str(), &info) != 0) return std::nullopt;
    return Space{.total_bytes = static_cast<uint64_t>(info.f_blocks) * info.f_frsize,
                 .free_bytes = static_cast<uint64_t>(info.f_bavail) * info.f_frsize,
                 .total_files = info.f_files,
                 .free_files = info.f_favail,
                 .read_only = (info.f_flag & ST_RDONLY) != 0};
  }

  bool CanWrite(const std::string& folder) const override {
    std::string full = root_ + folder;
    return ::access(full.c_str(), W_OK | X_OK) == 0;
  }

  std::string Variable(const std::string& name) const override {
    const char* value = root_.empty() ? std::getenv(name.c_str()) : nullptr;
    return value ? value : "";
  }

  std::string Output(const std::vector<std::string>& command) const override;

  std::optional<int64_t> Ask(const std::string& library, const std::string& name,
                             LibraryCall call) const override {
    if (!root_.empty()) return std::nullopt;
    return AskLibrary(library, name, call);
  }

  std::optional<std::string> KernelLog() const override {
    if (root_.empty()) {
      if (auto text = ReadKmsg()) return text;
      if (auto text = ReadKlog()) return text;
    }
    std::optional<std::string> all;
    for (const char* path : {"/var/log/kern.log", "/var/log/messages", "/var/log/syslog",
                             "/var/log/dmesg", "/sos_commands/kernel/dmesg"}) {
      if (auto text = Text(path)) all = all.value_or("") + *text;
    }
    return all;
  }

  // Asked once: starting NVML takes a moment, and all checks shall see the same.
  Gpus QueryGpus() const override {
    if (!gpus_) gpus_ = Query();
    return *gpus_;
  }

 private:
  Gpus Query() const {
    Gpus out;
    if (!root_.empty()) {
      out.why = "files of another machine are looked at";
      return out;
    }
    const auto loaded = snapshot::Nvml::Shared();
    const std::shared_ptr<snapshot::Nvml> nvml = loaded->nvml;
    out.why = loaded->why;
    if (!nvml) return out;
    out.loaded = true;
    out.driver = nvml->driver();
    out.cuda_driver = nvml->cuda_driver();
    const std::vector<int> visible = snapshot::VisibleGpus(*nvml);
    out.hidden = std::max(0, nvml->count() - static_cast<int>(visible.size()));
    for (int i : visible) {
      out.devices.push_back({i, nvml->Describe(i), nvml->Errors(i), nvml->Take(i)});
    }
    return out;
  }

  std::string root_;
  mutable std::optional<Gpus> gpus_;
};

std::string HostSystem::Output(const std::vector<std::string>& command) const {
  if (!root_.empty()) return "";
  ChildProcess child(command);
  std::string text = child.Rest(5);
  return child.Wait(1) == 0 ? text : "";
}

}  // namespace

std::unique_ptr<System> MakeHostSystem(const std::string& root) {
  // As RealPath finds it, so that what lies below can be told from what doesn't.
  std::error_code error;
  const fs::path real = root.empty() ? fs::path() : fs::canonical(root, error);
  return std::make_unique<HostSystem>(error || real == "/" ? root : real.string());
}

}  // namespace xp::doctor
