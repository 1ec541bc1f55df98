// CPU and memory, and what a container leaves of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "exp/base/cgroup.h"
#include "exp/base/leading_integer.h"
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
    const std::string& preference = *preferences.rbegin();  // not every driver has one
    f.found += fmt::format(" ({}{})", *drivers.rbegin(),
                           preference.empty() ? "" : ", preference " + preference);
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

// CPUs that the process may run on (cpuset, taskset), from "Cpus_allowed_list: 0-3,8"; 0: not told.
int AllowedCpus(const System& system) {
  constexpr std::string_view kName = "Cpus_allowed_list:";
  constexpr int64_t kMostCpus = 1 << 20;
  int64_t count = 0;
  for (const std::string& line : Lines(system.Text("/proc/self/status").value_or(""))) {
    if (!line.starts_with(kName)) continue;
    std::string list = line.substr(kName.size());
    for (size_t at = 0; at < list.size();) {
      size_t end = std::min(list.find(',', at), list.size());
      std::string part = list.substr(at, end - at);
      size_t dash = part.find('-');
      auto first = LeadingInteger(part);
      auto last = dash == std::string::npos ? first : LeadingInteger(part.substr(dash + 1));
      if (first && last && *first >= 0 && *last >= *first && *last < kMostCpus) {
        count += *last - *first + 1;
      }
      at = end + 1;
    }
  }
  return static_cast<int>(std::min(count, kMostCpus));
}

Finding CpuGroup(const System& system, const CgroupLimits& group) {
  Finding f{.id = "cpu.limit", .group = "health"};
  int logical = LogicalCpus(system), allowed = AllowedCpus(system);
  // A machine that may get more CPUs while it runs allows those, too.
  if (logical == 0) logical = allowed;
  if (logical == 0) {
    f.level = Level::kAbsent;
    f.found = "the system doesn't tell its CPUs";
    return f;
  }
  f.numbers = {{"logical", logical}};
  f.found = fmt::format("{} CPUs", logical);
  if (allowed > 0 && allowed < logical) {
    f.found += fmt::format(", {} of them for this process (cpuset)", allowed);
    f.numbers.emplace_back("allowed", allowed);
    logical = allowed;
  }
  if (!group.cpus || *group.cpus >= logical) {
    f.found += ", no limit below that";
    return f;
  }
  // exp starts as many threads as may run (exp/base/resources.h).
  int threads = std::max(1, static_cast<int>(std::ceil(*group.cpus)));
  f.numbers.emplace_back("limit", *group.cpus);
  f.found = fmt::format(
      "{} CPUs are seen, {:.1f} may be used (cgroup): exp starts {} threads; other programs need "
      "OMP_NUM_THREADS={} to do so",
      logical, *group.cpus, threads, threads);
  f.needed = "2 CPUs or more";
  if (*group.cpus >= 2) return f;
  f.level = Level::kWarning;
  f.why = "decoding images and computing, or launching kernels, wait for each other";
  f.fix = "raise the container's --cpus (or CPUQuota= of the service)";
  return f;
}

// Where the system doesn't tell its control groups, there may be a limit all the same.
Finding WithoutLimit(const System& system, const char* found, Finding f) {
  const bool told = system.Exists("/proc/self/cgroup");
  f.level = told ? Level::kOk : Level::kAbsent;
  f.found = told ? found : "the system doesn't tell its control groups";
  return f;
}

// Threads count as processes do.
Finding Processes(const System& system, const CgroupLimits& group) {
  Finding f{.id = "cpu.processes", .group = "health"};
  if (!group.threads) return WithoutLimit(system, "no limit of threads (cgroup)", std::move(f));
  const auto& [limit, left] = *group.threads;
  f.found = fmt::format("{:.0f} of {:.0f} threads are left (cgroup)", left, limit);
  f.needed = "256";
  f.numbers = {{"left", left}, {"limit", limit}};
  if (left >= 256) return f;
  f.level = left < 64 ? Level::kError : Level::kWarning;
  f.why = "each worker and each CPU of a computation is a thread: they can't be started";
  f.fix = "raise the container's --pids-limit (or TasksMax= of the service)";
  return f;
}

std::map<std::string, double> Meminfo(const System& system) {
  std::map<std::string, double> out;
  for (const std::string& line : Lines(system.Text("/proc/meminfo").value_or(""))) {
    size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    auto kib = LeadingInteger(line.substr(colon + 1));
    if (kib && *kib >= 0) out[line.substr(0, colon)] = static_cast<double>(*kib) * 1024;
  }
  return out;
}

Finding Memory(const std::map<std::string, double>& info) {
  Finding f{.id = "memory", .group = "health"};
  double total = info.at("MemTotal"), available = total;
  if (info.count("MemAvailable")) {
    available = info.at("MemAvailable");
  } else if (info.count("MemFree")) {  // Linux before 3.14, and emulations of it
    available = info.at("MemFree");
    for (const char* given_back : {"Buffers", "Cached"}) {
      if (info.count(given_back)) available += info.at(given_back);
    }
    available = std::min(available, total);
  }
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
  double used = info.count("SwapFree") ? std::max(0.0, total - info.at("SwapFree")) : 0;
  // "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" (Documentation/accounting/psi.rst): the
  // share of time in which something waited for memory.
  double waiting = 0;
  std::string pressure = system.Text("/proc/pressure/memory").value_or("");
  if (size_t at = pressure.find("avg60="); at != std::string::npos) {
    waiting = std::atof(pressure.c_str() + at + 6);
    if (!(waiting >= 0 && waiting <= 100)) waiting = 0;  // no share
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

Finding MemoryGroup(const System& system, const CgroupLimits& group, double total) {
  Finding f{.id = "memory.limit", .group = "health"};
  if (!group.memory) {
    return WithoutLimit(system, "no limit below the machine's memory", std::move(f));
  }
  constexpr double kGib = 1u << 30;
  const auto& [limit, left] = *group.memory;
  f.found = fmt::format("{} of the machine's {} may be used (cgroup), {} of that are left",
                        Gib(limit), Gib(total), Gib(left));
  f.numbers = {{"limit_bytes", limit}, {"left_bytes", left}};
  f.needed = "8 GiB, 2 GiB of them left";
  if (limit >= 8 * kGib && left >= 2 * kGib) return f;
  bool hopeless = limit < 2 * kGib || left < 0.5 * kGib;
  f.level = hopeless ? Level::kError : Level::kWarning;
  f.why = "the kernel kills what goes over it, without a word";
  f.fix =
      "raise the container's --memory, end what else runs in it, or use fewer "
      "data.workers_per_gpu";
  return f;
}

CgroupLimits GroupOf(const System& system, double machine_bytes) {
  return ReadCgroupLimits([&](const std::string& path) { return system.Text(path); },
                          machine_bytes);
}

}  // namespace

Findings CheckCpu(const Subject& s) {
  CgroupLimits group = GroupOf(s.system, 0);
  return {Governor(s.system), Turbo(s.system), CpuGroup(s.system, group),
          Processes(s.system, group)};
}

Findings CheckMemory(const Subject& s) {
  std::map<std::string, double> info = Meminfo(s.system);
  if (!info.count("MemTotal")) {
    return {{.id = "memory",
             .group = "health",
             .level = Level::kAbsent,
             .found = "/proc/meminfo can't be read"}};
  }
  double total = info.at("MemTotal");
  return {Memory(info), Swap(s.system, info),
          MemoryGroup(s.system, GroupOf(s.system, total), total)};
}

}  // namespace xp::doctor
