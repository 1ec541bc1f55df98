// What the control groups of a process leave it of the machine, versions 1 and 2.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace xp {

// The text of a file; nullopt where there is none, or it can't be read.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

struct CgroupLimits {
  struct Room {
    double limit = 0, left = 0;
  };
  std::optional<double> cpus;   // of the quota, in CPUs
  std::optional<Room> memory;   // bytes; of the group that leaves the least
  std::optional<Room> threads;  // threads and processes, likewise
};

// From /proc/self/cgroup and what lies below /sys/fs/cgroup. A limit holds for everything below it,
// so every folder up to the root counts. Limits of memory at or above `machine_bytes` are none.
CgroupLimits ReadCgroupLimits(const FileReader& read, double machine_bytes);

}  // namespace xp
