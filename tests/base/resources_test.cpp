// What a process may use of a machine, and work on its threads.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "catch.h"
#include "exp/base/cgroup.h"
#include "exp/base/parallel.h"
#include "exp/base/resources.h"

namespace xp {
namespace {

CgroupLimits Read(const std::map<std::string, std::string>& files, double machine = 1e12) {
  return ReadCgroupLimits(
      [&](const std::string& path) {
        auto it = files.find(path);
        return it == files.end() ? std::nullopt : std::optional(it->second);
      },
      machine);
}

TEST_CASE("control groups, version 2: the tightest of all folders up to the root") {
  std::map<std::string, std::string> files = {
      {"/sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n"},
      {"/proc/self/cgroup", "0::/a/b\n"},
      {"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
      {"/sys/fs/cgroup/a/cpu.max", "250000 100000\n"},
      {"/sys/fs/cgroup/a/b/memory.max", "1000\n"},
      {"/sys/fs/cgroup/a/b/memory.current", "700\n"},
      {"/sys/fs/cgroup/a/b/memory.stat", "anon 300\ninactive_file 400\n"},
      {"/sys/fs/cgroup/a/memory.high", "900\n"},
      {"/sys/fs/cgroup/a/memory.current", "800\n"},
      {"/sys/fs/cgroup/pids.max", "50\n"},
      {"/sys/fs/cgroup/pids.current", "60\n"}};
  CgroupLimits limits = Read(files);
  CHECK(limits.cpus == 2.5);
  REQUIRE(limits.memory);
  CHECK(limits.memory->limit == 900);  // 100 left there, 700 in a/b
  CHECK(limits.memory->left == 100);
  REQUIRE(limits.threads);
  CHECK(limits.threads->left == 0);
  CHECK_FALSE(Read(files, 800).memory);  // the machine itself has less
}

TEST_CASE("control groups, version 1: a tree for each controller; none told, odd texts") {
  std::map<std::string, std::string> files = {
      {"/proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n3:pids:/\n0::/\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000\n"},
      {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "500\n"},
      {"/sys/fs/cgroup/memory/memory.stat", "inactive_file 9\ntotal_inactive_file 100\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}};
  CgroupLimits limits = Read(files);
  CHECK(limits.cpus == 0.5);
  CHECK(limits.memory->left == 1600);
  CHECK_FALSE(limits.threads);
  CgroupLimits none = Read({});
  CHECK_FALSE((none.cpus || none.memory || none.threads));
  none = Read({{"/proc/self/cgroup", "::\nx\n:memory\n4:memory:\n"},
               {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "max\n"},
               {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"}});
  CHECK_FALSE((none.cpus || none.memory || none.threads));
}

TEST_CASE("this process has a CPU, memory and threads") {
  CHECK(UsableCpus() >= 1);
  MemoryRoom room = UsableMemory();
  CHECK(room.total_bytes > (1u << 20));
  CHECK(room.free_bytes <= room.total_bytes);
  CHECK(StartableThreads(3) == 3);
  CHECK(StartableThreads(0) == 0);
  CHECK(StartableThreads(-1) == 0);
}

// The exit code of `body` in a process of its own, whose limits are its own.
template <class Body>
int InChild(Body body) {
  pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

#if !defined(__SANITIZE_ADDRESS__)  // which reserves terabytes
int Limit(__rlimit_resource what, uint64_t bytes) {
  rlimit limit{bytes, bytes};
  return ::setrlimit(what, &limit);
}

TEST_CASE("limits of address space and file sizes count") {
  CHECK(InChild([] {
          Limit(RLIMIT_AS, uint64_t{4} << 40);
          uint64_t before = UsableMemory().free_bytes;
          Limit(RLIMIT_AS, uint64_t{300} << 20);
          uint64_t after = UsableMemory().free_bytes;
          return after < before && after < (uint64_t{300} << 20) ? 0 : 1;
        }) == 0);
  CHECK(InChild([] {
          Limit(RLIMIT_FSIZE, 12345);
          return FileSizeLimit() == 12345 ? 0 : 1;
        }) == 0);
}

TEST_CASE("fewer threads than wanted: the work is done by those that there are") {
  // Each thread reserves its stack of 8 MiB; a hundred don't fit.
  CHECK(InChild([] {
          rlimit stack{uint64_t{8} << 20, uint64_t{8} << 20};
          ::setrlimit(RLIMIT_STACK, &stack);
          Limit(RLIMIT_AS, uint64_t{400} << 20);
          int started = StartableThreads(100);
          if (started >= 100) return 1;
          std::atomic<int> done{0};
          ForEachInParallel(1000, 100, [&](size_t) { ++done; });
          return done == 1000 ? 0 : 2;
        }) == 0);
}
#endif

TEST_CASE("each piece once, the first exception, all threads ended") {
  for (int threads : {0, 1, 2, 7}) {
    std::vector<std::atomic<int>> seen(100);
    ForEachInParallel(seen.size(), threads, [&](size_t i) { ++seen[i]; });
    for (const auto& s : seen) CHECK(s == 1);
  }
  ForEachInParallel(0, 4, [](size_t) { FAIL("no piece"); });
  // The other pieces take long enough that the thread which throws may be held up for seconds.
  std::atomic<int> begun{0};
  CHECK_THROWS_AS(ForEachInParallel(2000, 3,
                                    [&](size_t i) {
                                      ++begun;
                                      if (i == 5) throw std::runtime_error("x");
                                      std::this_thread::sleep_for(std::chrono::milliseconds(5));
                                    }),
                  std::runtime_error);
  CHECK(begun < 2000);
  std::atomic<int> sum{0};
  CHECK(OnThreads(3, [&](int t) { sum += t; }) == 3);
  CHECK(sum == 3);
}

}  // namespace
}  // namespace xp
