// Files of a machine that hold anything: the checks end, and say what a person can read.
#include <cmath>

#include "catch.h"
#include "doctor/fake_system.h"

namespace xp::doctor {
namespace {

// A machine of which every kind of file that is read is there.
FakeSystem WholeMachine() {
  FakeSystem s = HealthyMachine();
  for (const char* file :
       {"/proc/self/status", "/proc/driver/nvidia/version", "/etc/ld.so.conf", "/etc/ld.so.cache",
        "/sys/devices/system/cpu/intel_pstate/no_turbo",
        "/sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference",
        "/sys/bus/pci/devices/0000:01:00.0/vendor", "/sys/bus/pci/devices/0000:01:00.0/class",
        "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/pids.max",
        "/sys/fs/cgroup/user.slice/memory.high", "/sys/fs/cgroup/user.slice/memory.current",
        "/sys/fs/cgroup/user.slice/memory.stat", "/sys/fs/cgroup/user.slice/pids.max",
        "/sys/fs/cgroup/user.slice/pids.current"}) {
    s.files[file] = "1\n";
  }
  return s;
}

std::vector<std::string> OddContents() {
  std::string binary;
  for (int i = 0; i < 65536; ++i) binary += static_cast<char>(i * 7);
  return {"",
          "\n",
          "-1\n",
          "0\n",
          "9223372036854775807\n",
          "-9223372036854775808\n",
          "99999999999999999999999999\n",
          "nan inf avg60=nan avg60=1e999\n",
          "MemTotal: -5 kB\nSwapTotal: 1 kB\nSwapFree: 9223372036854775807 kB\n",
          "Cpus_allowed_list:\t-5-3,0-1048575,0-1048575,,-,7-2,99999999999\n",
          "0::no/slash\n4:memory,pids,cpu:no/slash\n",
          "0::/../..\n",
          "Max open files -5\nMax processes many\nMax stack size 18446744073709551615\n",
          std::string(1 << 20, '9'),
          std::string(1 << 20, '.'),
          "0::" + std::string(1 << 20, '/') + "\n",
          std::string(1 << 20, '\n'),
          binary};
}

void RequireLegible(const Findings& findings) {
  for (const Finding& f : findings) {
    INFO(f.id << ": " << f.found.substr(0, 200));
    CHECK(f.found.size() <= 2003);
    CHECK(f.found.find("-0.0 ") == std::string::npos);
    for (const auto& [name, value] : f.numbers) CHECK(std::isfinite(value));
  }
}

TEST_CASE("each file of a machine with odd contents") {
  const FakeSystem whole = WholeMachine();
  const std::vector<std::string> odd = OddContents();
  for (const auto& [file, usual] : whole.files) {
    for (const std::string& content : odd) {
      FakeSystem s = whole;
      s.files[file] = content;
      INFO(file << ": " << content.substr(0, 60));
      RequireLegible(CheckAll(s.Of(TestBuild())));
    }
  }
}

TEST_CASE("all files of a machine with the same odd content, without a driver as well") {
  for (const std::string& content : OddContents()) {
    FakeSystem s = WholeMachine();
    for (auto& [file, text] : s.files) text = content;
    s.kernel_log = content;
    for (const char* program : {"nvcc", "g++"}) s.outputs[program] = content;
    RequireLegible(CheckAll(s.Of(TestBuild())));
    s.gpus = {};
    RequireLegible(CheckAll(s.Of(TestBuild())));
  }
}

TEST_CASE("a kernel's log of hundreds of Xid numbers and a line without an end") {
  FakeSystem s = HealthyMachine();
  std::string log;
  for (int i = 0; i < 5000; ++i) {
    log += "NVRM: Xid (PCI:0000:3b:00): " + std::to_string(i) + ", pid=1\n";
  }
  s.kernel_log = log + "I/O error, dev " + std::string(1 << 20, 'x');
  const Findings found = CheckKernelLog(s.Of(TestBuild()));
  CHECK(found.front().level == Level::kError);
  CHECK(found.front().numbers.size() == 64);
  RequireLegible(CheckAll(s.Of(TestBuild())));
}

TEST_CASE("what isn't told rightly is absent or no limit, not a wrong number") {
  FakeSystem s = HealthyMachine();
  s.files["/proc/self/limits"] =
      "Max open files many\nMax processes -5\nMax stack size 99999999999999999999\n";
  Findings limits = CheckLimits(s.Of(TestBuild()));
  CHECK(Get(limits, "files").level == Level::kAbsent);
  CHECK(Get(limits, "processes").level == Level::kAbsent);
  CHECK(Get(limits, "stack").found == "no limit");
  CHECK(Get(limits, "cpu_time").level == Level::kAbsent);
  s.files["/proc/self/cgroup"] = "0::user.slice\n";
  s.files["/sys/fs/cgroup/user.slice/memory.max"] = "-4096\n";
  CHECK(Get(CheckMemory(s.Of(TestBuild())), "memory.limit").found ==
        "no limit below the machine's memory");
  s.files["/proc/self/status"] = "Cpus_allowed_list:\t-5-3,0-1\n";
  CHECK(Get(CheckCpu(s.Of(TestBuild())), "cpu.limit").found ==
        "4 CPUs, 2 of them for this process (cpuset), no limit below that");
  s.files["/proc/pressure/memory"] = "some avg10=0.00 avg60=inf avg300=0.00 total=0\n";
  CHECK(Get(CheckMemory(s.Of(TestBuild())), "swap").level == Level::kOk);
}

TEST_CASE("configuration files of the loader that include each other") {
  FakeSystem s = HealthyMachine();
  s.files["/etc/ld.so.conf"] = "include ld.so.conf.d/*.conf\n";
  for (int i = 0; i < 60; ++i) {
    s.files["/etc/ld.so.conf.d/" + std::to_string(i) + ".conf"] =
        "include /etc/ld.so.conf.d/*.conf\n/opt/" + std::to_string(i) + "\n";
  }
  s.files["/opt/59/libodd.so.1"] = "";
  CHECK(CheckLibrary(s, "libodd.so.1").front().found == "/opt/59/libodd.so.1: an empty file");
}

}  // namespace
}  // namespace xp::doctor
