#include "exp/base/resources.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "exp/base/cgroup.h"
#include "exp/base/parallel.h"

namespace xp {
namespace {

std::optional<std::string> ReadText(const std::string& path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Of /proc/meminfo, in bytes; 0 where it isn't told.
uint64_t Meminfo(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key + ":")) continue;
    std::istringstream value(line.substr(key.size() + 1));
    uint64_t kib = 0;
    value >> kib;
    return kib * 1024;
  }
  return 0;
}

// CPUs of the affinity; machines with more than 1024 need a larger set than cpu_set_t.
int AffinityCpus() {
  for (int cpus = 1024; cpus <= (1 << 20); cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(cpus));
    if (set == nullptr) break;
    size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    bool told = ::sched_getaffinity(0, bytes, set) == 0;
    int count = told ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (told) return count;
    if (errno != EINVAL) break;
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

uint64_t Soft(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return limit.rlim_cur;
}

void Bound(uint64_t limit, uint64_t used, MemoryRoom* room) {
  if (limit == UINT64_MAX) return;
  uint64_t left = limit > used ? limit - used : 0;
  room->free_bytes = std::min(room->free_bytes, left);
  room->total_bytes = std::min(room->total_bytes, limit);
}

// OpenMP with OMP_PROC_BIND binds the thread that asks later on to one CPU.
const int kCpusAtStart = std::max(1, AffinityCpus());

}  // namespace

int UsableCpus() {
  double cpus = kCpusAtStart;
  CgroupLimits limits = ReadCgroupLimits(ReadText, 0);
  if (limits.cpus) cpus = std::min(cpus, std::ceil(*limits.cpus));
  return std::max(1, static_cast<int>(cpus));
}

MemoryRoom UsableMemory() {
  std::string info = ReadText("/proc/meminfo").value_or("");
  MemoryRoom room{Meminfo(info, "MemAvailable"), Meminfo(info, "MemTotal")};
  if (room.total_bytes == 0) {  // no /proc
    auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    room.total_bytes = page * static_cast<uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
    room.free_bytes = page * static_cast<uint64_t>(std::max(0L, ::sysconf(_SC_AVPHYS_PAGES)));
  }
  auto machine = static_cast<double>(room.total_bytes);
  if (auto group = ReadCgroupLimits(ReadText, machine).memory) {
    room.total_bytes = static_cast<uint64_t>(group->limit);
    room.free_bytes = std::min(room.free_bytes, static_cast<uint64_t>(group->left));
  }
  // "size resident shared text lib data dt", in pages (proc(5)).
  std::istringstream pages(ReadText("/proc/self/statm").value_or(""));
  uint64_t size = 0, resident = 0, shared = 0, text = 0, lib = 0, data = 0;
  pages >> size >> resident >> shared >> text >> lib >> data;
  auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  Bound(Soft(RLIMIT_AS), size * page, &room);
  Bound(Soft(RLIMIT_DATA), data * page, &room);
  return room;
}

bool AddressesLimited() { return Soft(RLIMIT_AS) != UINT64_MAX || Soft(RLIMIT_DATA) != UINT64_MAX; }

int StartableThreads(int wanted) {
  std::mutex mutex;
  std::condition_variable changed;
  bool end = false;
  std::vector<std::thread> threads = StartThreads(wanted, [&](int) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return end; });
  });
  {
    std::lock_guard lock(mutex);
    end = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) thread.join();
  return static_cast<int>(threads.size());
}

uint64_t FileSizeLimit() { return Soft(RLIMIT_FSIZE); }

}  // namespace xp
