// CPU and memory, and what control groups leave of them, through a fake of the system's files.
#include "catch.h"
#include "doctor/fake_system.h"

namespace xp::doctor {
namespace {

TEST_CASE("the CPU's governor and turbo") {
  FakeSystem s = HealthyMachine();
  const std::string folder = "/sys/devices/system/cpu/cpu2/cpufreq/";
  s.files[folder + "scaling_governor"] = "powersave\n";
  CHECK(Get(CheckCpu(s.Of(TestBuild())), "cpu.governor").level == Level::kWarning);
  for (int i = 0; i < 4; ++i) {
    std::string f = "/sys/devices/system/cpu/cpu" + std::to_string(i) + "/cpufreq/";
    s.files[f + "scaling_driver"] = "intel_pstate\n";
    s.files[f + "energy_performance_preference"] = "balance_performance\n";
  }
  CHECK(Get(CheckCpu(s.Of(TestBuild())), "cpu.governor").level == Level::kOk);
  s.files[folder + "energy_performance_preference"] = "power\n";
  CHECK(Get(CheckCpu(s.Of(TestBuild())), "cpu.governor").level == Level::kWarning);
  s.files["/sys/devices/system/cpu/cpufreq/boost"] = "0\n";
  CHECK(Get(CheckCpu(s.Of(TestBuild())), "cpu.turbo").level == Level::kWarning);
}

TEST_CASE("limits of a container, cgroup version 2 and 1") {
  FakeSystem s = HealthyMachine();
  s.files["/sys/fs/cgroup/user.slice/cpu.max"] = "150000 100000\n";
  Finding f = Get(CheckCpu(s.Of(TestBuild())), "cpu.limit");
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.found, "4 CPUs are seen, 1.5 may be used (cgroup): exp starts 2 threads"));
  s.files["/sys/fs/cgroup/memory.max"] = "4294967296\n";  // a folder above counts, too
  f = Get(CheckMemory(s.Of(TestBuild())), "memory.limit");
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.found, "4.0 GiB"));
  s.files["/sys/fs/cgroup/user.slice/memory.max"] = "1073741824\n";
  CHECK(Get(CheckMemory(s.Of(TestBuild())), "memory.limit").level == Level::kError);

  FakeSystem old = HealthyMachine();
  old.files.erase("/sys/fs/cgroup/cgroup.controllers");
  old.files["/proc/self/cgroup"] = "5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n0::/\n";
  // The path isn't visible inside of the container: the mount's root is its own group.
  old.files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "2147483648\n";
  old.files["/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"] = "200000\n";
  old.files["/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us"] = "100000\n";
  CHECK(Get(CheckMemory(old.Of(TestBuild())), "memory.limit").level == Level::kWarning);
  CHECK(Says(Get(CheckCpu(old.Of(TestBuild())), "cpu.limit").found, "2.0 may be used"));
  old.files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n";  // none
  old.files["/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"] = "-1\n";
  CHECK(Get(CheckMemory(old.Of(TestBuild())), "memory.limit").level == Level::kOk);
  CHECK(Get(CheckCpu(old.Of(TestBuild())), "cpu.limit").level == Level::kOk);
}

TEST_CASE("a quota in cgroup version 1, whatever its mount is called") {
  for (const char* mount : {"cpu", "cpu,cpuacct", "cpuacct,cpu"}) {
    FakeSystem s = HealthyMachine();
    s.files.erase("/sys/fs/cgroup/cgroup.controllers");
    s.files["/proc/self/cgroup"] = "5:cpuacct,cpu:/\n";
    const std::string folder = std::string("/sys/fs/cgroup/") + mount;
    s.files[folder + "/cpu.cfs_quota_us"] = "100000\n";
    s.files[folder + "/cpu.cfs_period_us"] = "100000\n";
    INFO(mount);
    CHECK(Says(Get(CheckCpu(s.Of(TestBuild())), "cpu.limit").found, "1.0 may be used"));
  }
}

TEST_CASE("memory that is free, where the kernel doesn't tell what is available") {
  FakeSystem s = HealthyMachine();
  auto look = [&](const char* text) {
    s.files["/proc/meminfo"] = text;
    return Get(CheckMemory(s.Of(TestBuild())), "memory");
  };
  const Finding f = look("MemTotal: 65536000 kB\nMemFree: 1000000 kB\n");
  CHECK(f.level == Level::kWarning);
  CHECK(f.found == "1.0 GiB of 62.5 GiB available");
  CHECK(look("MemTotal: 65536000 kB\nMemFree: 1000000 kB\nBuffers: 1000000 kB\n"
             "Cached: 40000000 kB\n")
            .level == Level::kOk);
  CHECK(look("MemTotal: 65536000 kB\n").level == Level::kOk);  // nothing is told
}

TEST_CASE("a container's memory counts by what is left of it") {
  FakeSystem s = HealthyMachine();
  const std::string group = "/sys/fs/cgroup/user.slice/";
  auto look = [&] { return Get(CheckMemory(s.Of(TestBuild())), "memory.limit"); };
  s.files[group + "memory.max"] = "17179869184\n";  // 16 GiB
  s.files[group + "memory.current"] = "16106127360\n";
  CHECK(look().level == Level::kWarning);
  CHECK(Says(look().found,
             "16.0 GiB of the machine's 62.5 GiB may be used (cgroup), 1.0 GiB of that"));
  s.files[group + "memory.stat"] = "anon 1\nactive_file 5\ninactive_file 10737418240\n";
  CHECK(look().level == Level::kOk);
  CHECK(Says(look().found, "11.0 GiB of that are left"));
  s.files[group + "memory.stat"] = "";
  s.files[group + "memory.current"] = "17179000000\n";
  CHECK(look().level == Level::kError);
  s.files[group + "memory.current"] = "0\n";
  s.files[group + "memory.high"] = "4294967296\n";  // systemd's MemoryHigh
  CHECK(look().level == Level::kWarning);
  CHECK(Says(look().found, "4.0 GiB of the machine's"));
}

TEST_CASE("CPUs that a process may run on") {
  FakeSystem s = HealthyMachine();
  s.files["/proc/self/status"] = "Name:\texp\nCpus_allowed:\t5\nCpus_allowed_list:\t0,2-3\n";
  Finding f = Get(CheckCpu(s.Of(TestBuild())), "cpu.limit");
  CHECK(f.level == Level::kOk);
  CHECK(f.found == "4 CPUs, 3 of them for this process (cpuset), no limit below that");
  s.files["/sys/fs/cgroup/user.slice/cpu.max"] = "300000 100000\n";
  CHECK(Get(CheckCpu(s.Of(TestBuild())), "cpu.limit").level == Level::kOk);
  s.files["/sys/fs/cgroup/user.slice/cpu.max"] = "200000 100000\n";
  f = Get(CheckCpu(s.Of(TestBuild())), "cpu.limit");
  CHECK(f.level == Level::kOk);
  CHECK(Says(f.found, "3 CPUs are seen, 2.0 may be used (cgroup): exp starts 2 threads"));
  s.files["/sys/fs/cgroup/user.slice/cpu.max"] = "50000 100000\n";
  CHECK(Get(CheckCpu(s.Of(TestBuild())), "cpu.limit").level == Level::kWarning);
}

TEST_CASE("CPUs that a virtual machine may get later are none") {
  FakeSystem s = HealthyMachine();  // of 4
  s.files["/proc/self/status"] = "Cpus_allowed_list:\t0-239\n";
  CHECK(Get(CheckCpu(s.Of(TestBuild())), "cpu.limit").found == "4 CPUs, no limit below that");
  s.files.erase("/proc/cpuinfo");
  CHECK(Says(Get(CheckCpu(s.Of(TestBuild())), "cpu.limit").found, "240 CPUs"));
}

TEST_CASE("limits of threads") {
  FakeSystem s = HealthyMachine();
  auto threads = [&] { return Get(CheckCpu(s.Of(TestBuild())), "cpu.processes"); };
  s.files["/sys/fs/cgroup/user.slice/pids.max"] = "max\n";
  CHECK(threads().level == Level::kOk);
  s.files["/sys/fs/cgroup/user.slice/pids.max"] = "300\n";
  s.files["/sys/fs/cgroup/user.slice/pids.current"] = "100\n";
  CHECK(threads().level == Level::kWarning);
  CHECK(threads().found == "200 of 300 threads are left (cgroup)");
  s.files["/sys/fs/cgroup/pids.max"] = "120\n";  // the folder above leaves less
  s.files["/sys/fs/cgroup/pids.current"] = "100\n";
  CHECK(threads().level == Level::kError);
  CHECK(Says(threads().fix, "--pids-limit"));
  FakeSystem old = HealthyMachine();
  old.files.erase("/sys/fs/cgroup/cgroup.controllers");
  old.files["/proc/self/cgroup"] = "8:pids:/job\n0::/\n";
  old.files["/sys/fs/cgroup/pids/job/pids.max"] = "100\n";
  old.files["/sys/fs/cgroup/pids/job/pids.current"] = "60\n";
  CHECK(Get(CheckCpu(old.Of(TestBuild())), "cpu.processes").found ==
        "40 of 100 threads are left (cgroup)");
}

TEST_CASE("little memory, swapped-out memory, pressure") {
  FakeSystem s = HealthyMachine();
  s.files["/proc/meminfo"] =
      "MemTotal: 65536000 kB\nMemAvailable: 3000000 kB\nSwapTotal: 8000000 kB\nSwapFree: 0 kB\n";
  Findings all = CheckMemory(s.Of(TestBuild()));
  CHECK(Get(all, "memory").level == Level::kWarning);
  CHECK(Get(all, "swap").level == Level::kWarning);
  CHECK(Says(Get(all, "swap").found, "7.6 GiB of 7.6 GiB swapped out"));
  s.files["/proc/meminfo"] = "MemTotal: 65536000 kB\nMemAvailable: 100000 kB\n";
  s.files["/proc/pressure/memory"] = "some avg10=9.00 avg60=12.50 avg300=0.00 total=0\n";
  all = CheckMemory(s.Of(TestBuild()));
  CHECK(Get(all, "memory").level == Level::kError);
  CHECK(Get(all, "swap").level == Level::kWarning);
  s.files.erase("/proc/meminfo");
  CHECK(Get(CheckMemory(s.Of(TestBuild())), "memory").level == Level::kAbsent);
}

}  // namespace
}  // namespace xp::doctor
