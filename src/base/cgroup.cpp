#include "exp/base/cgroup.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string_view>
#include <vector>

#include "exp/base/leading_integer.h"

namespace xp {
namespace {

constexpr const char* kRoot = "/sys/fs/cgroup";
// Above what a kernel writes: a path is one of PATH_MAX, a line one of each hierarchy.
constexpr size_t kLongestPath = 4096;
constexpr int kMostHierarchies = 64;

// Not below 0; nullopt for "max" and the like.
std::optional<int64_t> Amount(const std::string& text) {
  auto value = LeadingInteger(text);
  return value && *value >= 0 ? value : std::nullopt;
}

// Version 2 has one tree ("0::/path" in /proc/self/cgroup), version 1 one a controller. Where the
// path is outside of what a container sees, the mount's root is the container's own group.
class Groups {
 public:
  explicit Groups(const FileReader& read) : read_(read) {
    v2_ = read(std::string(kRoot) + "/cgroup.controllers").has_value();
    std::istringstream lines(read("/proc/self/cgroup").value_or(""));
    int count = 0;
    for (std::string line; count < kMostHierarchies && std::getline(lines, line); ++count) {
      AddLine(line);
    }
  }

  std::optional<double> Cpus() const {
    std::optional<double> least;
    for (const std::string& folder : cpu_) {
      std::optional<int64_t> quota, period;
      if (v2_) {
        std::istringstream words(read_(folder + "/cpu.max").value_or(""));
        std::string first, second;
        words >> first >> second;
        quota = Amount(first), period = Amount(second);
      } else {
        quota = NumberIn(folder + "/cpu.cfs_quota_us");
        period = NumberIn(folder + "/cpu.cfs_period_us");
      }
      if (!quota || !period || *quota <= 0 || *period <= 0) continue;
      double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
      least = std::min(least.value_or(cpus), cpus);
    }
    return least;
  }

  // Version 2 has two limits: memory.high slows programs down, memory.max kills them. Pages of
  // files that nobody has used lately are given back, so they don't count as used.
  std::optional<CgroupLimits::Room> Memory(double machine_bytes) const {
    std::optional<CgroupLimits::Room> least;
    for (const std::string& folder : memory_) {
      double limit = machine_bytes;
      for (const char* name : {"/memory.max", "/memory.high", "/memory.limit_in_bytes"}) {
        bool known = v2_ != std::string_view(name).ends_with("_in_bytes");
        auto value = known ? NumberIn(folder + name) : std::nullopt;
        if (value) limit = std::min(limit, static_cast<double>(*value));
      }
      if (limit >= machine_bytes) continue;
      std::string statistics = read_(folder + "/memory.stat").value_or("");
      auto usage = NumberIn(folder + (v2_ ? "/memory.current" : "/memory.usage_in_bytes"));
      double used = static_cast<double>(usage.value_or(0)) -
                    Statistic(statistics, v2_ ? "inactive_file" : "total_inactive_file");
      Least({limit, std::max(0.0, limit - std::max(0.0, used))}, &least);
    }
    return least;
  }

  std::optional<CgroupLimits::Room> Threads() const {
    std::optional<CgroupLimits::Room> least;
    for (const std::string& folder : pids_) {
      auto limit = NumberIn(folder + "/pids.max");
      if (!limit) continue;
      auto used = static_cast<double>(NumberIn(folder + "/pids.current").value_or(0));
      auto most = static_cast<double>(*limit);
      Least({most, std::max(0.0, most - used)}, &least);
    }
    return least;
  }

 private:
  void AddLine(const std::string& line) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) return;
    std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (!path.starts_with('/') || path.size() > kLongestPath) return;
    if (v2_) {
      if (names != ",,") return;
      AddUpward("", path, memory_);
      cpu_ = pids_ = memory_;
      return;
    }
    if (names.find(",memory,") != std::string::npos) AddUpward("/memory", path, memory_);
    if (names.find(",pids,") != std::string::npos) AddUpward("/pids", path, pids_);
    if (names.find(",cpu,") == std::string::npos) return;
    // The mount is called by either order; the link `cpu` to it isn't everywhere (CentOS 7's
    // Docker).
    for (const char* tree : {"/cpu", "/cpu,cpuacct", "/cpuacct,cpu"}) AddUpward(tree, path, cpu_);
  }

  static void AddUpward(const std::string& tree, std::string path, std::vector<std::string>& out) {
    const std::string base = kRoot + tree;
    while (path.size() > 1) {
      out.push_back(base);
      out.back() += path;
      path = path.substr(0, path.rfind('/'));
    }
    out.push_back(base);
  }

  static void Least(const CgroupLimits::Room& room, std::optional<CgroupLimits::Room>* least) {
    if (!*least || room.left < (*least)->left) *least = room;
  }

  std::optional<int64_t> NumberIn(const std::string& path) const {
    auto text = read_(path);
    return text ? Amount(*text) : std::nullopt;
  }

  // The line "name N" of memory.stat.
  static double Statistic(const std::string& text, const std::string& name) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with(name + " ")) continue;
      return static_cast<double>(Amount(line.substr(name.size())).value_or(0));
    }
    return 0;
  }

  const FileReader& read_;
  std::vector<std::string> memory_, cpu_, pids_;  // folders, innermost first
  bool v2_ = false;
};

}  // namespace

CgroupLimits ReadCgroupLimits(const FileReader& read, double machine_bytes) {
  Groups groups(read);
  return {groups.Cpus(), groups.Memory(machine_bytes), groups.Threads()};
}

}  // namespace xp
