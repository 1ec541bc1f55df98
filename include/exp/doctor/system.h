// The machine as the checks see it: files, libraries, programs and GPUs. HostSystem is the real
// one; tests put a fake in its place. Nothing here throws: what can't be seen is absent.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exp/base/library_version.h"
#include "exp/snapshot/nvml.h"

namespace xp::doctor {

struct Space {
  uint64_t total_bytes = 0, free_bytes = 0;  // free: for this user
  uint64_t total_files = 0, free_files = 0;  // inodes; 0 of 0 where the file system doesn't count
  bool read_only = false;
};

struct GpuState {
  int index = 0;  // NVML's
  snapshot::Nvml::Static about;
  snapshot::Nvml::Faults errors;
  snapshot::Nvml::Sample now;
};

struct Gpus {
  bool loaded = false;      // NVML answers
  std::string why;          // why it doesn't
  std::string driver;       // "580.159.03": of the library, so of the user's side
  std::string cuda_driver;  // "13.0": newest CUDA that libcuda runs
  std::vector<GpuState> devices;
  int hidden = 0;  // that CUDA_VISIBLE_DEVICES leaves out
};

// Bytes of a file; `owner` keeps them.
struct FileBytes {
  std::shared_ptr<const void> owner;
  std::span<const char> bytes;
};

class System {
 public:
  virtual ~System() = default;

  // False where only files of another machine are looked at: nothing there can be asked or run.
  virtual bool IsHere() const { return true; }
  // Up to 16 MiB of a file's text.
  virtual std::optional<std::string> Text(const std::string& path) const = 0;
  virtual std::optional<FileBytes> Bytes(const std::string& path) const = 0;
  virtual bool Exists(const std::string& path) const = 0;
  // The file, or a folder above it, may not be read by this user.
  virtual bool IsForbidden(const std::string& path) const = 0;
  // The path with all links followed; itself where there are none.
  virtual std::string RealPath(const std::string& path) const = 0;
  virtual std::vector<std::string> Names(const std::string& folder) const = 0;  // sorted
  virtual std::optional<Space> SpaceAt(const std::string& path) const = 0;
  // May this user make files in the folder? False where it isn't there.
  virtual bool CanWrite(const std::string& folder) const = 0;
  virtual std::string Variable(const std::string& name) const = 0;  // empty: not set
  // What a program printed; empty where it isn't there or fails.
  virtual std::string Output(const std::vector<std::string>& command) const = 0;
  // As AskLibrary of exp/base/library_version.h does.
  virtual std::optional<int64_t> Ask(const std::string& library, const std::string& name,
                                     LibraryCall call) const = 0;
  // The kernel's messages as far as they can be read; absent where none can.
  virtual std::optional<std::string> KernelLog() const = 0;
  virtual Gpus QueryGpus() const = 0;
};

// `root` stands before every path of files ("" for this machine): a folder with the proc, sys and
// etc of another one. With a root, libraries, programs, disks and GPUs are absent.
std::unique_ptr<System> MakeHostSystem(const std::string& root = "");

}  // namespace xp::doctor
