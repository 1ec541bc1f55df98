// Who works on a run, and whether they still live: a run is running only while its process does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace xp::record {

// Names a process for good: a pid alone is reused, with the start time and the boot it is not.
struct ProcessIdentity {
  int64_t pid = 0;
  int64_t start = 0;          // clock ticks since boot: /proc/PID/stat, field 22 (proc(5))
  int64_t pid_namespace = 0;  // inode of /proc/PID/ns/pid: in a container, pids mean something else
  std::string boot_id;        // /proc/sys/kernel/random/boot_id
  std::string host;
};

enum class Life {
  kAlive,
  kStopped,   // SIGSTOP or a debugger: still running for us
  kGone,      // exited, killed or a zombie
  kRebooted,  // its machine was restarted since
  kUnknown,   // another machine or container: only its heartbeat tells
};

ProcessIdentity ThisProcess();
Life Probe(const ProcessIdentity& process);

// How often the kernel killed for memory in this process's cgroup (memory.events), if it says.
std::optional<int64_t> OutOfMemoryKills();

}  // namespace xp::record
