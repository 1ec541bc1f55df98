// Limits of the process and of the file systems that a training uses.
#include <fmt/format.h>

#include <algorithm>

#include "exp/doctor/checks.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

// The soft limit that a line of /proc/self/limits tells, as it is written ("unlimited", "1024");
// empty where it tells none.
std::string SoftLimit(const System& system, const std::string& name) {
  for (const std::string& line : Lines(system.Text("/proc/self/limits").value_or(""))) {
    if (!line.starts_with(name)) continue;
    std::vector<std::string> words = Words(line.substr(name.size()));
    return words.empty() ? "" : words[0];
  }
  return "";
}

Finding Files(const System& system) {
  Finding f{.id = "files", .group = "health", .level = Level::kAbsent};
  std::string limit = SoftLimit(system, "Max open files");
  if (limit.empty()) {
    f.found = "the limit of open files can't be read";
    return f;
  }
  auto soft = Number(limit);  // "unlimited" is no number
  f.level = Level::kOk;
  f.found = fmt::format("{} open files", limit);
  f.needed = "1024 or more";
  if (soft) f.numbers = {{"soft", static_cast<double>(*soft)}};
  if (!soft || *soft >= 1024) return f;
  f.level = *soft < 256 ? Level::kError : Level::kWarning;
  f.why = "loaders of many workers open many files, and fail with \"too many open files\"";
  f.fix = "ulimit -n 65536, or LimitNOFILE= of the service";
  return f;
}

Finding AddressSpace(const System& system) {
  Finding f{.id = "address_space", .group = "health", .level = Level::kAbsent};
  std::string limit = SoftLimit(system, "Max address space");
  if (limit.empty()) {
    f.found = "the limit of the address space can't be read";
    return f;
  }
  auto bytes = Number(limit);
  f.level = Level::kOk;
  f.found = bytes ? Gib(static_cast<double>(*bytes)) + " of address space" : "no limit";
  f.needed = "no limit";
  if (!bytes) return f;
  f.numbers = {{"soft_bytes", static_cast<double>(*bytes)}};
  f.level = *bytes < (int64_t{16} << 30) ? Level::kError : Level::kWarning;
  f.why =
      "CUDA reserves addresses for all memory of the host and the cards at once, and each thread "
      "some more: both fail with \"out of memory\" while memory is free";
  f.fix = "ulimit -v unlimited, or take RLIMIT_AS out of limits.conf, the service or the batch job";
  return f;
}

Finding SharedMemory(const System& system) {
  Finding f{.id = "shm", .group = "health", .level = Level::kAbsent};
  std::optional<Space> space;
  if (system.Exists("/dev/shm")) space = system.SpaceAt("/dev/shm");
  if (!space) {
    f.found = "there is no /dev/shm";
    return f;
  }
  auto total = static_cast<double>(space->total_bytes);
  f.level = Level::kOk;
  f.found = fmt::format("{}, {} free", Gib(total), Gib(static_cast<double>(space->free_bytes)));
  f.needed = "1 GiB";
  f.numbers = {{"total_bytes", total}, {"free_bytes", static_cast<double>(space->free_bytes)}};
  if (total >= 1e9 && space->free_bytes > (64u << 20)) return f;
  f.level = Level::kWarning;
  f.why =
      "exp's loader doesn't use it, but PyTorch's loaders and NCCL do: they stop with \"bus "
      "error\"";
  f.fix = "start the container with --shm-size=8g (or --ipc=host)";
  return f;
}

// least: bytes without which nothing works; wanted: bytes for a usual training.
Finding Disk(const System& system, const char* id, const char* what, const std::string& path,
             double least, double wanted) {
  Finding f{.id = id, .group = "health", .level = Level::kAbsent};
  auto space = path.empty() ? std::nullopt : system.SpaceAt(path);
  if (!space) {
    f.found = fmt::format("{}: {} can't be asked", what, path.empty() ? "no folder" : path);
    return f;
  }
  auto free_bytes = static_cast<double>(space->free_bytes);
  f.level = Level::kOk;
  f.found = fmt::format("{} free of {} for {} ({})", Gib(free_bytes),
                        Gib(static_cast<double>(space->total_bytes)), what, path);
  f.needed = fmt::format("{} free", Gib(wanted));
  f.numbers = {{"free_bytes", free_bytes},
               {"total_bytes", static_cast<double>(space->total_bytes)}};
  bool no_files = space->total_files > 0 && space->free_files < 100;
  if (space->read_only || free_bytes < least || no_files) {
    f.level = Level::kError;
  } else if (free_bytes < wanted) {
    f.level = Level::kWarning;
  }
  if (f.level == Level::kOk) return f;
  if (space->read_only) f.found += ", mounted read-only";
  if (no_files) f.found += ", no inodes left";
  f.why = fmt::format("{} can't be written there", what);
  f.fix = "free space there, or choose another place (--store, --work-dir)";
  return f;
}

// cuDNN's plans are searched once and kept in the cache folder.
Finding Cache(const System& system) {
  Finding f{.id = "disk.cache", .group = "health"};
  std::string folder = system.Variable("XDG_CACHE_HOME");
  if (folder.empty()) {
    std::string home = system.Variable("HOME");
    folder = home.empty() ? "" : home + "/.cache";
  }
  f.needed = "a folder that can be written, for cuDNN's plans";
  f.found = folder.empty() ? "neither HOME nor XDG_CACHE_HOME is set" : folder;
  // The folder itself, or the nearest above it, in which it would be made.
  std::string at = folder;
  while (at.size() > 1 && !system.Exists(at)) at = at.substr(0, at.rfind('/'));
  if (at.empty() && !folder.empty()) at = "/";
  if (!folder.empty() && system.CanWrite(at)) return f;
  f.level = Level::kWarning;
  if (!folder.empty()) f.found += " can't be written";
  f.why = "the search for cuDNN's plans, a minute or two a model, is done again in each start";
  f.fix = "set XDG_CACHE_HOME to a folder that can be written";
  return f;
}

}  // namespace

Findings CheckLimits(const Subject& s) {
  return {Files(s.system), AddressSpace(s.system), SharedMemory(s.system)};
}

Findings CheckDisk(const Subject& s) {
  constexpr double kMib = 1u << 20, kGib = 1u << 30;
  Findings out{Disk(s.system, "disk.store", "the record", s.store, 16 * kMib, 1 * kGib),
               Disk(s.system, "disk.work", "checkpoints", s.work, 1 * kGib, 10 * kGib)};
  if (s.build.compiled_in) out.push_back(Cache(s.system));
  return out;
}

Findings CheckAll(const Subject& s) {
  Findings out;
  for (auto* check :
       {CheckDriver, CheckLibcuda, CheckGpuCode, CheckCudnn, CheckNccl, CheckCompilers, CheckBinary,
        CheckGpuHealth, CheckKernelLog, CheckCpu, CheckMemory, CheckLimits, CheckDisk}) {
    for (Finding& f : check(s)) out.push_back(std::move(f));
  }
  return out;
}

}  // namespace xp::doctor
