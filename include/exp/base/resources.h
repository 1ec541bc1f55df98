// What this process may use of the machine: the least of what the hardware has, what affinity and
// control groups leave, and what resource limits (setrlimit(2)) allow. Asked anew in each call.
#pragma once

#include <cstdint>

namespace xp {

// Threads that can compute at once, at least 1: CPUs of the affinity that the program was started
// with (taskset, cpuset), bounded by the control group's quota, a part of a CPU rounded up.
int UsableCpus();

struct MemoryRoom {
  uint64_t free_bytes = 0, total_bytes = 0;
};
// Memory that can still be taken without being killed or refused, and what there would be at best.
// Both 0 where nothing tells.
MemoryRoom UsableMemory();

// Is there a limit of addresses or data (`ulimit -v`, `-d`)? Beyond it memory is refused, not the
// process killed.
bool AddressesLimited();

// How many of `wanted` threads the system lets this process have now, besides those that it has:
// they are started and ended. Limits of threads, memory and address space all show here.
int StartableThreads(int wanted);

// The largest file that may be written (`ulimit -f`), in bytes; UINT64_MAX: no limit.
uint64_t FileSizeLimit();

}  // namespace xp
