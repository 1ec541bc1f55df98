// CPU and memory, and what a container leaves of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "exp/doctor/checks.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

constexpr const char* kCpus = "/sys/devices/system/cpu";

int LogicalCpus(const System& system) {
  int count = 0;
  for (const std::string& line : Lines(system.Text("/proc/cpuinfo").value_or(""))) {
    count += line.starts_with("processor") ? 1 : 0;
  }
  return count;
}

Finding Governor(const System& system) {
  Finding f{.id = "cpu.governor", .group = "health"};
  std::set<std::string> governors, drivers, preferences;
  for (const std::string& name : system.Names(kCpus)) {
    if (!name.starts_with("cpu") || name.size() < 4 ||
        std::isdigit(static_cast<unsigned char>(name[3])) == 0)
      continue;
    std::string folder = fmt::format("{}/{}/cpufreq", kCpus, name);
    auto governor = system.Text(folder + "/scaling_governor");
    if (!governor) continue;
    governors.insert(Trimmed(*governor));
    drivers.insert(Trimmed(system.Text(folder + "/scaling_driver").value_or("")));
    preferences.insert(
        Trimmed(system.Text(folder + "/energy_performance_preference").value_or("")));
  }
  if (governors.empty()) {
    f.level = Level::kAbsent;
    f.found = "the system doesn't tell (a virtual machine or a container)";
    return f;
  }
  f.found = Listed({governors.begin(), governors.end()});
  f.needed = "performance";
  // intel_pstate and amd-pstate-epp choose clocks by load under the name `powersave`.
  bool adaptive = drivers.count("intel_pstate") > 0 || drivers.count("amd-pstate-epp") > 0;
  bool saving = governors.count("powersave") > 0 && (!adaptive || preferences.count("power") > 0);
  if (adaptive && !saving) {
    f.found += fmt::format(" ({}, preference {})", *drivers.rbegin(), *preferences.rbegin());
    f.needed = "performance, or an adaptive driver";
    return f;
  }
  if (!saving && governors.count("conservative") == 0) return f;
  f.level = Level::kWarning;
  f.why = "the CPU stays at a low clock, so decoding images and launching kernels take longer";
  f.fix = "cpupower frequency-set -g performance (as root)";
  return f;
}

Finding Turbo(const System& system) {
  Finding f{.id = "cpu.turbo", .group = "health", .level = Level::kAbsent};
  std::string off =
      Trimmed(system.Text(std::string(kCpus) + "/intel_pstate/no_turbo").value_or(""));
  std::string on = Trimmed(system.Text(std::string(kCpus) + "/cpufreq/boost").value_or(""));
  if (off.empty() && on.empty()) {
    f.found = "the system doesn't tell";
    return f;
  }
  bool disabled = off == "1" || on == "0";
  f.level = disabled ? Level::kWarning : Level::kOk;
  f.found = disabled ? "off" : "on";
  f.needed = "on";
  if (!disabled) return f;
  f.why = "single threads run at the base clock";
  f.fix = off == "1" ? "echo 0 > /sys/devices/system/cpu/intel_pstate/no_turbo (as root)"
                     : "echo 1 > /sys/devices/system/cpu/cpufreq/boost (as root)";
  return f;
}

// ---- cgroups. Version 2 has one tree ("0::/path" in /proc/self/cgroup), version 1 one a
// controller. A limit holds for everything below, so every folder up to the root counts; where the
// path is outside of what a container sees, the mount's root is the container's own group.
struct Groups {
  std::vector<std::string> memory, cpu, pids;  // folders, innermost first
  bool v2 = false;
};

void AddUpward(const std::string& base, std::string path, std::vector<std::string>& out) {
  while (path.size() > 1) {
    out.push_back(base + path);
    path = path.substr(0, path.rfind('/'));
  }
  out.push_back(base);
}

Groups FindGroups(const System& system) {
  Groups groups;
  groups.v2 = system.Exists("/sys/fs/cgroup/cgroup.controllers");
  for (const std::string& line : Lines(system.Text("/proc/self/cgroup").value_or(""))) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (groups.v2 && names == ",,") {
      AddUpward("/sys/fs/cgroup", path, groups.memory);
      groups.cpu = groups.pids = groups.memory;
    } else if (!groups.v2 && names.find(",memory,") != std::string::npos) {
      AddUpward("/sys/fs/cgroup/memory", path, groups.memory);
    } else if (!groups.v2 && names.find(",cpu,") != std::string::npos) {
      AddUpward("/sys/fs/cgroup/cpu", path, groups.cpu);
      AddUpward("/sys/fs/cgroup/cpu,cpuacct", path, groups.cpu);
    } else if (!groups.v2 && names.find(",pids,") != std::string::npos) {
      AddUpward("/sys/fs/cgroup/pids", path, groups.pids);
    }
  }
  return groups;
}

struct MemoryRoom {
  double limit = 0, left = 0;  // bytes; of the group that leaves the least
};

// The line "name N" of memory.stat, in bytes.
double Statistic(const std::string& text, const std::string& name) {
  for (const std::string& line : Lines(text)) {
    if (line.starts_with(name + " ")) {
      return static_cast<double>(Number(line.substr(name.size())).value_or(0));
    }
  }
  return 0;
}

// Version 2 has two limits: memory.high slows programs down, memory.max kills them. Pages of files
// that nobody has used lately are given back, so they don't count as used.
std::optional<MemoryRoom> RoomOf(const System& system, const Groups& groups, double total) {
  std::optional<MemoryRoom> least;
  auto bytes = [&](const std::string& path) {
    auto text = system.Text(path);
    auto value = text ? Number(*text) : std::nullopt;  // "max" is no number
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  };
  for (const std::string& folder : groups.memory) {
    double limit = total;
    for (const char* name : {"/memory.max", "/memory.high", "/memory.limit_in_bytes"}) {
      bool known = groups.v2 != std::string_view(name).ends_with("_in_bytes");
      if (known) limit = std::min(limit, bytes(folder + name).value_or(total));
    }
    if (limit >= total) continue;
    std::string statistics = system.Text(folder + "/memory.stat").value_or("");
    double used =
        bytes(folder + (groups.v2 ? "/memory.current" : "/memory.usage_in_bytes")).value_or(0) -
        Statistic(statistics, groups.v2 ? "inactive_file" : "total_inactive_file");
    MemoryRoom room{limit, std::max(0.0, limit - std::max(0.0, used))};
    if (!least || room.left < least->left) least = room;
  }
  return least;
}

// CPUs that the process may run on (cpuset, taskset), from "Cpus_allowed_list: 0-3,8"; 0: not told.
int AllowedCpus(const System& system) {
  constexpr std::string_view kName = "Cpus_allowed_list:";
  int count = 0;
  for (const std::string& line : Lines(system.Text("/proc/self/status").value_or(""))) {
    if (!line.starts_with(kName)) continue;
    std::string list = line.substr(kName.size());
    for (size_t at = 0; at < list.size();) {
      size_t end = std::min(list.find(',', at), list.size());
      std::string part = list.substr(at, end - at);
      size_t dash = part.find('-');
      auto first = Number(part);
      auto last = dash == std::string::npos ? first : Number(part.substr(dash + 1));
      if (first && last && *last >= *first && *last < (1 << 20)) {
        count += static_cast<int>(*last - *first) + 1;
      }
      at = end + 1;
    }
  }
  return count;
}

// In CPUs.
std::optional<double> CpuLimit(const System& system, const Groups& groups) {
  std::optional<double> least;
  for (const std::string& folder : groups.cpu) {
    std::optional<int64_t> quota, period;
    if (groups.v2) {
      std::vector<std::string> words = Words(system.Text(folder + "/cpu.max").value_or(""));
      if (words.size() == 2) quota = Number(words[0]), period = Number(words[1]);
    } else {
      quota = Number(system.Text(folder + "/cpu.cfs_quota_us").value_or(""));
      period = Number(system.Text(folder + "/cpu.cfs_period_us").value_or(""));
    }
    if (!quota || !period || *quota <= 0 || *period <= 0) continue;
    double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
    least = std::min(least.value_or(1e30), cpus);
  }
  return least;
}

Finding CpuGroup(const System& system, const Groups& groups) {
  Finding f{.id = "cpu.limit", .group = "health"};
  int logical = LogicalCpus(system), allowed = AllowedCpus(system);
  std::optional<double> limit = CpuLimit(system, groups);
  f.numbers = {{"logical", logical}};
  f.found = fmt::format("{} CPUs", logical);
  // Programs ask for this one and start as many threads (sched_getaffinity).
  if (allowed > 0 && allowed < logical) {
    f.found += fmt::format(", {} of them for this process (cpuset)", allowed);
    f.numbers.emplace_back("allowed", allowed);
    logical = allowed;
  }
  if (!limit || *limit >= logical) {
    f.found += ", no limit below that";
    return f;
  }
  f.numbers.emplace_back("limit", *limit);
  f.level = Level::kWarning;
  f.found = fmt::format("{} CPUs are seen, {:.1f} may be used (cgroup)", logical, *limit);
  f.needed = "as many as are seen, or settings that know the limit";
  f.why = "programs start a thread for each CPU that they see, and those then wait for each other";
  int threads = std::max(1, static_cast<int>(std::floor(*limit)));
  f.fix = fmt::format(
      "start with `--threads {}` and data.workers_per_gpu={}, or raise the "
      "container's --cpus",
      threads, threads);
  return f;
}

// Threads count as processes do.
Finding Processes(const System& system, const Groups& groups) {
  Finding f{.id = "cpu.processes", .group = "health"};
  std::optional<double> least, limit_of_it;
  for (const std::string& folder : groups.pids) {
    auto limit = Number(system.Text(folder + "/pids.max").value_or(""));  // "max" is no number
    if (!limit) continue;
    auto used = Number(system.Text(folder + "/pids.current").value_or("")).value_or(0);
    auto left = static_cast<double>(*limit - used);
    if (!least || left < *least) least = left, limit_of_it = static_cast<double>(*limit);
  }
  if (!least) {
    f.found = "no limit of threads (cgroup)";
    return f;
  }
  f.found = fmt::format("{:.0f} of {:.0f} threads are left (cgroup)", *least, *limit_of_it);
  f.needed = "256";
  f.numbers = {{"left", *least}, {"limit", *limit_of_it}};
  if (*least >= 256) return f;
  f.level = *least < 64 ? Level::kError : Level::kWarning;
  f.why = "each worker and each CPU of a computation is a thread: they can't be started";
  f.fix = "raise the container's --pids-limit (or TasksMax= of the service)";
  return f;
}

std::map<std::string, double> Meminfo(const System& system) {
  std::map<std::string, double> out;
  for (const std::string& line : Lines(system.Text("/proc/meminfo").value_or(""))) {
    size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    auto kib = Number(line.substr(colon + 1));
    if (kib) out[line.substr(0, colon)] = static_cast<double>(*kib) * 1024;
  }
  return out;
}

Finding Memory(const std::map<std::string, double>& info) {
  Finding f{.id = "memory", .group = "health"};
  double total = info.at("MemTotal"), available = total;
  if (info.count("MemAvailable")) available = info.at("MemAvailable");
  f.found = fmt::format("{} of {} available", Gib(available), Gib(total));
  f.needed = "2 GiB available and a tenth of all";
  f.numbers = {{"available_bytes", available}, {"total_bytes", total}};
  constexpr double kGib = 1u << 30;
  if (available < 0.5 * kGib) {
    f.level = Level::kError;
  } else if (available < 2 * kGib || available < 0.1 * total) {
    f.level = Level::kWarning;
  }
  if (f.level == Level::kOk) return f;
  f.why = "a training, or something else, will be killed or swapped out";
  f.fix = "end what takes it (`ps aux --sort -rss | head`)";
  return f;
}

Finding Swap(const System& system, const std::map<std::string, double>& info) {
  Finding f{.id = "swap", .group = "health"};
  double total = info.count("SwapTotal") ? info.at("SwapTotal") : 0;
  double used = info.count("SwapFree") ? total - info.at("SwapFree") : 0;
  // "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" (Documentation/accounting/psi.rst): the
  // share of time in which something waited for memory.
  double waiting = 0;
  std::string pressure = system.Text("/proc/pressure/memory").value_or("");
  if (size_t at = pressure.find("avg60="); at != std::string::npos) {
    waiting = std::atof(pressure.c_str() + at + 6);
  }
  f.found = total > 0 ? fmt::format("{} of {} swapped out", Gib(used), Gib(total)) : "no swap";
  if (waiting > 0) f.found += fmt::format(", {:.1f} % of a minute waiting for memory", waiting);
  f.numbers = {{"used_bytes", used}, {"waiting_percent", waiting}};
  if (used < 0.05 * info.at("MemTotal") && waiting < 5) return f;
  f.level = Level::kWarning;
  f.needed = "next to nothing swapped out";
  f.why = "what was swapped out comes back slowly, and stalls the loader";
  f.fix = "end what takes the memory, then `swapoff -a && swapon -a` (as root)";
  return f;
}

Finding MemoryGroup(const System& system, const Groups& groups, double total) {
  Finding f{.id = "memory.limit", .group = "health"};
  std::optional<MemoryRoom> room = RoomOf(system, groups, total);
  if (!room) {
    f.found = "no limit below the machine's memory";
    return f;
  }
  constexpr double kGib = 1u << 30;
  f.found = fmt::format("{} of the machine's {} may be used (cgroup), {} of that are left",
                        Gib(room->limit), Gib(total), Gib(room->left));
  f.numbers = {{"limit_bytes", room->limit}, {"left_bytes", room->left}};
  f.needed = "8 GiB, 2 GiB of them left";
  if (room->limit >= 8 * kGib && room->left >= 2 * kGib) return f;
  bool hopeless = room->limit < 2 * kGib || room->left < 0.5 * kGib;
  f.level = hopeless ? Level::kError : Level::kWarning;
  f.why = "the kernel kills what goes over it, without a word";
  f.fix =
      "raise the container's --memory, end what else runs in it, or use fewer "
      "data.workers_per_gpu";
  return f;
}

}  // namespace

Findings CheckCpu(const Subject& s) {
  Groups groups = FindGroups(s.system);
  return {Governor(s.system), Turbo(s.system), CpuGroup(s.system, groups),
          Processes(s.system, groups)};
}

Findings CheckMemory(const Subject& s) {
  std::map<std::string, double> info = Meminfo(s.system);
  if (!info.count("MemTotal")) {
    return {{.id = "memory",
             .group = "health",
             .level = Level::kAbsent,
             .found = "/proc/meminfo can't be read"}};
  }
  return {Memory(info), Swap(s.system, info),
          MemoryGroup(s.system, FindGroups(s.system), info.at("MemTotal"))};
}

}  // namespace xp::doctor
