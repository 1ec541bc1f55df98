// Space on, and rights to, the file systems that a training uses.
#include <fmt/format.h>

#include <algorithm>

#include "exp/doctor/checks.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

constexpr double kMib = 1u << 20, kGib = 1u << 30;
constexpr const char* kNotAsked = "disks of another machine can't be asked";

Finding SharedMemory(const System& system) {
  Finding f{.id = "shm", .group = "health", .level = Level::kAbsent};
  std::optional<Space> space;
  if (system.Exists("/dev/shm")) space = system.SpaceAt("/dev/shm");
  if (!space) {
    f.found = system.IsHere() ? "there is no /dev/shm" : kNotAsked;
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

// The folder itself, or the nearest above it, in which it would be made.
std::string NearestFolder(const System& system, const std::string& folder) {
  std::string at = folder;
  while (at.size() > 1 && !system.Exists(at)) {
    size_t slash = at.rfind('/');
    if (slash == std::string::npos) return ".";
    at = at.substr(0, slash);
  }
  return at.empty() ? "/" : at;
}

struct Place {
  const char *id, *what;
  std::string path;
  double least, wanted;   // bytes without which nothing works; for a usual training
  const char* elsewhere;  // how to choose another one
};

Finding Disk(const System& system, const Place& place) {
  Finding f{.id = place.id, .group = "health", .level = Level::kAbsent};
  auto space = place.path.empty() ? std::nullopt : system.SpaceAt(place.path);
  if (!space) {
    f.found = !system.IsHere() ? kNotAsked
                               : fmt::format("{}: {} can't be asked", place.what,
                                             place.path.empty() ? "no folder" : place.path);
    return f;
  }
  auto free_bytes = static_cast<double>(space->free_bytes);
  f.level = Level::kOk;
  f.found = fmt::format("{} free of {} for {} ({})", Gib(free_bytes),
                        Gib(static_cast<double>(space->total_bytes)), place.what, place.path);
  f.needed = fmt::format("{} free, in a folder that can be written", Gib(place.wanted));
  f.numbers = {{"free_bytes", free_bytes},
               {"total_bytes", static_cast<double>(space->total_bytes)}};
  bool no_files = space->total_files > 0 && space->free_files < 100;
  bool forbidden = !space->read_only && !system.CanWrite(NearestFolder(system, place.path));
  if (space->read_only || forbidden || free_bytes < place.least || no_files) {
    f.level = Level::kError;
  } else if (free_bytes < place.wanted) {
    f.level = Level::kWarning;
  }
  if (f.level == Level::kOk) return f;
  if (space->read_only) f.found += ", mounted read-only";
  if (forbidden) f.found += ", no folder that this user may write";
  if (no_files) f.found += ", no inodes left";
  f.why = f.level == Level::kError ? fmt::format("{} can't be written there", place.what)
                                   : fmt::format("{} of a long training may fill it", place.what);
  f.fix = fmt::format("{}, or {}",
                      space->read_only ? "mount it to be written"
                      : forbidden      ? "give this user the right to write there (chown, chmod)"
                      : no_files       ? "remove files there"
                                       : "free space there",
                      place.elsewhere);
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
  if (!system.IsHere()) {
    f.level = Level::kAbsent;
    f.found = kNotAsked;
    return f;
  }
  f.found = folder.empty() ? "neither HOME nor XDG_CACHE_HOME is set" : folder;
  if (!folder.empty() && system.CanWrite(NearestFolder(system, folder))) return f;
  f.level = Level::kWarning;
  if (!folder.empty()) f.found += " can't be written";
  f.why = "the search for cuDNN's plans, a minute or two a model, is done again in each start";
  f.fix = "set XDG_CACHE_HOME to a folder that can be written";
  return f;
}

}  // namespace

Findings CheckDisk(const Subject& s) {
  constexpr const char* kElsewhere = "choose another place (--store, --work-dir)";
  const std::string named = s.system.Variable("TMPDIR");
  const bool gone = !named.empty() && !s.system.Exists(named);
  const std::string temporary = named.empty() || gone ? "/tmp" : named;
  Findings out{SharedMemory(s.system)};
  for (const Place& place :
       {Place{"disk.store", "the record", s.store, 16 * kMib, 1 * kGib, kElsewhere},
        Place{"disk.work", "checkpoints", s.work, 1 * kGib, 10 * kGib, kElsewhere},
        Place{"disk.tmp", "temporary files", temporary, 16 * kMib, 256 * kMib,
              "set TMPDIR to a folder that can be written"}}) {
    out.push_back(Disk(s.system, place));
  }
  if (gone) {
    Finding& f = out.back();
    f.level = std::max(f.level, Level::kWarning);
    f.found = fmt::format("TMPDIR names no folder: {}; {}", named, f.found);
    f.why = "programs that don't fall back to /tmp fail";
    f.fix = "make the folder, or unset TMPDIR";
  }
  if (s.build.compiled_in) out.push_back(Cache(s.system));
  return out;
}

}  // namespace xp::doctor
