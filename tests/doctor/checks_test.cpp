// Each failing state of a machine, through a fake of its files, libraries and cards.
#include <fmt/format.h>

#include "catch.h"
#include "doctor/fake_system.h"

namespace xp::doctor {
namespace {

const Finding& Get(const Findings& all, const std::string& id) {
  for (const Finding& f : all) {
    if (f.id == id) return f;
  }
  FAIL("no finding " << id);
  return all.front();
}

bool Says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  UNSCOPED_INFO("`" << part << "` isn't in: " << text);
  return false;
}

TEST_CASE("a healthy machine has nothing to complain of") {
  FakeSystem s = HealthyMachine();
  for (const Finding& f : CheckAll(s.Of(TestBuild()))) {
    INFO(f.id << ": " << f.found);
    CHECK(f.level == Level::kOk);
  }
}

TEST_CASE("every warning and error says what is needed, why and what to do") {
  FakeSystem s = HealthyMachine();
  s.gpus.devices[0].about.power_limit_mw = 400000;
  s.gpus.devices[0].errors.uncorrected = 3;
  s.spaces["/store"].free_bytes = 1000;
  s.files["/sys/module/nvidia/version"] = s.gpus.driver = "470.42.01";
  s.gpus.cuda_driver = "11.4";
  int bad = 0;
  for (const Finding& f : CheckAll(s.Of(TestBuild()))) {
    if (f.level != Level::kWarning && f.level != Level::kError) continue;
    ++bad;
    INFO(f.id);
    CHECK_FALSE(f.found.empty());
    CHECK_FALSE(f.needed.empty());
    CHECK_FALSE(f.why.empty());
    CHECK_FALSE(f.fix.empty());
  }
  CHECK(bad >= 4);
}

TEST_CASE("versions are compared part by part as numbers") {
  CHECK(CompareVersions("550.54.9", "550.54.15") < 0);
  CHECK(CompareVersions("12.4", "12.4.0") == 0);
  CHECK(CompareVersions("580", "575.51.03") > 0);
  CHECK(CompareVersions("3.4.9", "3.4.30") < 0);
}

TEST_CASE("the driver that a CUDA needs, from NVIDIA's tables") {
  CHECK(DriverFor("13.0").full == "580.65.06");
  CHECK(DriverFor("12.4").full == "550.54.14");
  CHECK(DriverFor("12.7").full == "560.28.03");  // no such release: that of the one before
  CHECK(DriverFor("12.8").minor == "525.60.13");
  CHECK(DriverFor("11.8").minor == "450.80.02");
  CHECK(DriverFor("14.2").full == "590.44.01");
}

TEST_CASE("an old driver") {
  FakeSystem s = HealthyMachine();
  s.files["/sys/module/nvidia/version"] = s.gpus.driver = "470.42.01";
  s.gpus.cuda_driver = "11.4";
  Finding f = Get(CheckDriver(s.Of(TestBuild())), "driver.runtime");
  CHECK(f.level == Level::kError);
  CHECK(Says(f.found, "470.42.01"));
  CHECK(Says(f.needed, "580.65.06"));
  CHECK(Says(f.fix, "cuda-compat-13.0"));
}

TEST_CASE("a driver of the same major version runs it by minor-version compatibility") {
  FakeSystem s = HealthyMachine();
  s.files["/sys/module/nvidia/version"] = s.gpus.driver = "535.104.05";
  s.gpus.cuda_driver = "12.2";
  graph::CudaBuild build = TestBuild();
  build.runtime = "12.4";
  Finding f = Get(CheckDriver(s.Of(build)), "driver.runtime");
  CHECK(f.level == Level::kOk);
  CHECK(Says(f.found, "minor-version compatibility"));
  s.files["/sys/module/nvidia/version"] = s.gpus.driver = "515.65.01";
  s.gpus.cuda_driver = "11.7";
  CHECK(Get(CheckDriver(s.Of(build)), "driver.runtime").level == Level::kError);
}

TEST_CASE("forward compatibility: a newer libcuda over an older kernel module") {
  FakeSystem s = HealthyMachine();
  s.files["/sys/module/nvidia/version"] = s.gpus.driver = "535.104.05";
  s.gpus.cuda_driver = "13.0";
  Finding f = Get(CheckDriver(s.Of(TestBuild())), "driver.runtime");
  CHECK(f.level == Level::kOk);
  CHECK(Says(f.found, "cuda-compat"));
}

TEST_CASE("libcuda: the stub, none, mixed versions, forward compatibility") {
  FakeSystem s = HealthyMachine();
  auto look = [&] { return Get(CheckLibcuda(s.Of(TestBuild())), "driver.libcuda"); };
  auto first = [&](const std::string& folder, const std::string& real) {
    s.variables["LD_LIBRARY_PATH"] = folder;
    s.files[folder + "/libcuda.so.1"] = "";
    s.links[folder + "/libcuda.so.1"] = real;
  };
  CHECK(look().level == Level::kOk);
  SECTION("the toolkit's stub stands first") {
    first("/cuda/lib64/stubs", "/cuda/lib64/stubs/libcuda.so");
    s.answers.erase({"libcuda.so.1", "cuDriverGetVersion"});  // it reports an error
    CHECK(look().level == Level::kError);
    CHECK(Says(look().found, "/cuda/lib64/stubs/libcuda.so is the stub"));
    CHECK(Says(look().fix, "LD_LIBRARY_PATH"));
  }
  SECTION("a link to the stub") {
    first("/home/u/lib", "/cuda/lib64/stubs/libcuda.so");
    CHECK(Says(look().found, "is the stub"));
  }
  SECTION("none") {
    s.answers.erase({"libcuda.so.1", "cuDriverGetVersion"});
    s.files.erase("/usr/lib/x86_64-linux-gnu/libcuda.so.1");
    CHECK(look().level == Level::kError);
    CHECK(Says(look().found, "isn't found"));
    CHECK(Says(look().fix, "--gpus all"));
  }
  SECTION("a container brings an older one along") {
    first("/opt/old", "/opt/old/libcuda.so.535.104.05");
    CHECK(look().level == Level::kError);
    CHECK(Says(look().found, "version 535.104.05, over the kernel module 580.159.03"));
    CHECK(Says(look().fix, "/opt/old"));
  }
  SECTION("cuda-compat: for data-centre cards") {
    first("/usr/local/cuda/compat", "/usr/local/cuda/compat/libcuda.so.590.44.01");
    CHECK(look().level == Level::kOk);
    CHECK(Says(look().found, "forward compatibility"));
    s.gpus.devices[0].about.name = "NVIDIA GeForce RTX 4090";
    CHECK(look().level == Level::kError);
    CHECK(Says(look().why, "GeForce"));
  }
  SECTION("a system that finds it elsewhere") {
    s.files.erase("/usr/lib/x86_64-linux-gnu/libcuda.so.1");
    CHECK(look().level == Level::kOk);
  }
}

TEST_CASE("no driver: absent without a card, an error with one") {
  FakeSystem s = HealthyMachine();
  s.gpus = {};
  s.gpus.why = "libnvidia-ml.so.1: cannot open shared object file";
  s.files.erase("/sys/module/nvidia/version");
  CHECK(Get(CheckDriver(s.Of(TestBuild())), "driver").level == Level::kAbsent);
  s.files["/sys/bus/pci/devices/0000:01:00.0/vendor"] = "0x10de\n";
  s.files["/sys/bus/pci/devices/0000:01:00.0/class"] = "0x030200\n";
  CHECK(Get(CheckDriver(s.Of(TestBuild())), "driver").level == Level::kError);
}

TEST_CASE("a container without the NVIDIA runtime, and a driver updated under use") {
  FakeSystem s = HealthyMachine();
  s.gpus = {};
  s.gpus.why = "libnvidia-ml.so.1: cannot open shared object file";
  s.files["/proc/driver/nvidia/version"] =
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build\n";
  s.files.erase("/sys/module/nvidia/version");
  Finding f = Get(CheckDriver(s.Of(TestBuild())), "driver");
  CHECK(f.level == Level::kError);
  CHECK(Says(f.found, "580.159.03"));
  CHECK(Says(f.fix, "--gpus all"));
  s.gpus.why = "Driver/library version mismatch";
  f = Get(CheckDriver(s.Of(TestBuild())), "driver");
  CHECK(Says(f.fix, "reboot"));
}

TEST_CASE("a build without CUDA beside a card") {
  FakeSystem s = HealthyMachine();
  Findings all = CheckAll(s.Of(graph::CudaBuild{}));
  CHECK(Get(all, "driver.runtime").level == Level::kWarning);
  for (const Finding& f : all) CHECK(f.id != "cudnn");
}

TEST_CASE("compute capability against machine code and PTX") {
  FakeSystem s = HealthyMachine();
  auto level = [&](int major, int minor) {
    s.gpus.devices[0].about.major = major;
    s.gpus.devices[0].about.minor = minor;
    return Get(CheckGpuCode(s.Of(TestBuild())), "gpu.0.code").level;
  };
  CHECK(level(9, 0) == Level::kOk);
  CHECK(level(8, 6) == Level::kOk);        // code of 80 runs on 8.6
  CHECK(level(10, 0) == Level::kWarning);  // PTX of 90
  // Only PTX would do, and a driver of CUDA 12 doesn't compile CUDA 13's.
  s.gpus.cuda_driver = "12.8";
  CHECK(level(10, 0) == Level::kError);
  CHECK(Says(Get(CheckGpuCode(s.Of(TestBuild())), "gpu.0.code").why, "can't compile"));
  CHECK(level(9, 0) == Level::kOk);
  s.gpus.cuda_driver = "13.0";
  CHECK(level(7, 0) == Level::kError);  // code of 75 doesn't run on 7.0
  graph::CudaBuild build = TestBuild();
  build.machine_code = build.ptx = {"90a"};
  s.gpus.devices[0].about.major = 10;
  CHECK(Get(CheckGpuCode(s.Of(build)), "gpu.0.code").level == Level::kError);
}

TEST_CASE("cuDNN: missing, of another major version, for a newer CUDA") {
  const std::string path = "/opt/cuda/lib64/libcudnn.so.9";
  FakeSystem s = HealthyMachine();
  s.answers[{path, "cudnnGetVersion"}] = 8902;
  Finding f = Get(CheckCudnn(s.Of(TestBuild())), "cudnn");
  CHECK(f.level == Level::kError);
  CHECK(Says(f.found, "8.9.2"));
  s.answers[{path, "cudnnGetVersion"}] = 91900;
  s.gpus.cuda_driver = "12.4";
  f = Get(CheckCudnn(s.Of(TestBuild())), "cudnn");
  CHECK(f.level == Level::kError);
  CHECK(Says(f.fix, "CUDA 12"));
  s.files.erase(path);
  CHECK(Get(CheckCudnn(s.Of(TestBuild())), "cudnn").level == Level::kError);
  s.gpus.devices.clear();
  CHECK(Get(CheckCudnn(s.Of(TestBuild())), "cudnn").level == Level::kAbsent);
}

TEST_CASE("mixed cuDNN files") {
  FakeSystem s = HealthyMachine();
  SECTION("another version first in LD_LIBRARY_PATH") {
    s.variables["LD_LIBRARY_PATH"] = "/home/u/old";
    s.files["/home/u/old/libcudnn_ops.so.9"] = "";
    s.links["/home/u/old/libcudnn_ops.so.9"] = "/home/u/old/libcudnn_ops.so.9.1.0";
    Finding f = Get(CheckCudnn(s.Of(TestBuild())), "cudnn.parts");
    CHECK(f.level == Level::kError);
    CHECK(Says(f.found, "libcudnn_ops.so.9 is 9.1.0 (/home/u/old/libcudnn_ops.so.9)"));
  }
  SECTION("a part without a version in its name, in another folder") {
    s.variables["LD_LIBRARY_PATH"] = "/wheel/lib";
    s.files["/wheel/lib/libcudnn_graph.so.9"] = "";
    Finding f = Get(CheckCudnn(s.Of(TestBuild())), "cudnn.parts");
    CHECK(f.level == Level::kError);
    CHECK(Says(f.found, "comes from /wheel/lib"));
  }
  SECTION("cuDNN's own check of a part fails") {
    s.answers[{"/opt/cuda/lib64/libcudnn.so.9", "cudnnCnnVersionCheck"}] = 1005;
    CHECK(Get(CheckCudnn(s.Of(TestBuild())), "cudnn.parts").level == Level::kError);
  }
  SECTION("a part is missing") {
    s.files.erase("/opt/cuda/lib64/libcudnn_heuristic.so.9");
    Finding f = Get(CheckCudnn(s.Of(TestBuild())), "cudnn.parts");
    CHECK(f.level == Level::kError);
    CHECK(Says(f.found, "libcudnn_heuristic.so.9 missing"));
  }
}

TEST_CASE("NCCL is wanted with several GPUs only") {
  FakeSystem s = HealthyMachine();
  CHECK(Says(Get(CheckNccl(s.Of(TestBuild())), "nccl").found, "2.28.9"));
  s.answers.erase({"libnccl.so.2", "ncclGetVersion"});
  CHECK(Get(CheckNccl(s.Of(TestBuild())), "nccl").level == Level::kAbsent);
  s.gpus.devices.push_back(s.gpus.devices[0]);
  CHECK(Get(CheckNccl(s.Of(TestBuild())), "nccl").level == Level::kWarning);
}

TEST_CASE("a C++ compiler that nvcc doesn't take, a toolkit newer than the driver") {
  FakeSystem s = HealthyMachine();
  s.outputs["nvcc"] = "Cuda compilation tools, release 12.4, V12.4.131\n";
  s.outputs["g++"] = "14.2.0\n";
  Finding f = Get(CheckCompilers(s.Of(TestBuild())), "nvcc");
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.fix, "g++-13"));
  s.outputs["nvcc"] = "Cuda compilation tools, release 14.0, V14.0.1\n";
  CHECK(Get(CheckCompilers(s.Of(TestBuild())), "nvcc.driver").level == Level::kWarning);
  s.outputs.clear();
  CHECK(Get(CheckCompilers(s.Of(TestBuild())), "nvcc").level == Level::kAbsent);
}

TEST_CASE("a capped, a hot, a used and a prohibited GPU; persistence off") {
  FakeSystem s = HealthyMachine();
  GpuState& gpu = s.gpus.devices[0];
  gpu.about.power_limit_mw = 350000;
  Finding f = Get(CheckGpuHealth(s.Of(TestBuild())), "gpu.0.power");
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.fix, "-pl 700"));
  gpu.now.celsius = 86;
  CHECK(Get(CheckGpuHealth(s.Of(TestBuild())), "gpu.0.heat").level == Level::kError);
  gpu.now.celsius = 75;
  CHECK(Get(CheckGpuHealth(s.Of(TestBuild())), "gpu.0.heat").level == Level::kWarning);
  gpu.now.memory_used = 100'000'000'000;
  CHECK(Get(CheckGpuHealth(s.Of(TestBuild())), "gpu.0.use").level == Level::kWarning);
  gpu.about.compute_mode = 2;
  CHECK(Get(CheckGpuHealth(s.Of(TestBuild())), "gpu.0.use").level == Level::kError);
  gpu.about.persistence = false;
  CHECK(Get(CheckGpuHealth(s.Of(TestBuild())), "gpu.0.persistence").level == Level::kWarning);
  gpu.now.throttle = 0x40;
  CHECK(Get(CheckGpuHealth(s.Of(TestBuild())), "gpu.0.throttle").level == Level::kWarning);
}

TEST_CASE("ECC errors, retired pages, remapped rows") {
  FakeSystem s = HealthyMachine();
  auto& errors = s.gpus.devices[0].errors;
  auto level = [&] { return Get(CheckGpuHealth(s.Of(TestBuild())), "gpu.0.ecc").level; };
  errors.corrected = 12;
  CHECK(level() == Level::kOk);
  errors.remap_pending = true;
  CHECK(level() == Level::kWarning);
  errors.remap_pending = false;
  errors.retired_pages = 60;
  CHECK(level() == Level::kWarning);
  errors.remap_failed = true;
  CHECK(level() == Level::kError);
  errors.remap_failed = false;
  errors.uncorrected = 1;
  CHECK(level() == Level::kError);
}

TEST_CASE("a card that tells nothing is absent, not wrong") {
  FakeSystem s = HealthyMachine();
  s.gpus.devices[0] = GpuState{};
  for (const Finding& f : CheckGpuHealth(s.Of(TestBuild()))) {
    INFO(f.id << ": " << f.found);
    CHECK(f.level != Level::kWarning);
    CHECK(f.level != Level::kError);
  }
}

TEST_CASE("under load: heat, a cap, a link with few lanes") {
  FakeSystem s = HealthyMachine();
  LoadSeen seen;
  seen.about = s.gpus.devices[0].about;
  seen.seconds = 20;
  snapshot::Nvml::Sample sample;
  sample.sm_mhz = 1755;
  sample.power_mw = 690000;
  sample.celsius = 70;
  sample.pcie_generation = 5;
  sample.pcie_width = 16;
  sample.throttle = 0x04;  // at its own limit: as it should be
  seen.samples.assign(100, sample);
  Findings all = CheckUnderLoad(seen);
  CHECK(Get(all, "gpu.0.load").level == Level::kOk);
  CHECK(Get(all, "gpu.0.pcie").level == Level::kOk);
  seen.about.power_limit_mw = 400000;
  Finding f = Get(CheckUnderLoad(seen), "gpu.0.load");
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.fix, "-pl 700"));
  for (auto& x : seen.samples) x.throttle = 0x20, x.pcie_width = 4;
  all = CheckUnderLoad(seen);
  CHECK(Says(Get(all, "gpu.0.load").found, "heat 100 % of the time"));
  CHECK(Get(all, "gpu.0.pcie").level == Level::kWarning);
  CHECK(Says(Get(all, "gpu.0.pcie").found, "x4"));
  CHECK(Get(CheckUnderLoad(LoadSeen{}), "gpu.0.load").level == Level::kAbsent);
}

TEST_CASE("Xid errors, killed programs and disk errors of the kernel's log") {
  FakeSystem s = HealthyMachine();
  s.kernel_log =
      "[  10.0] NVRM: Xid (PCI:0000:3b:00): 13, pid=1234, name=python, Graphics Exception\n"
      "[  11.0] NVRM: Xid (PCI:0000:3b:00): 13, pid=1234, name=python, Graphics Exception\n";
  Finding f = Get(CheckKernelLog(s.Of(TestBuild())), "xid");
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.found, "2 x Xid 13"));
  *s.kernel_log +=
      "[  12.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
      "[  13.0] Out of memory: Killed process 77 (trainer) total-vm:1kB\n"
      "[  14.0] blk_update_request: I/O error, dev sda, sector 5\n";
  Findings all = CheckKernelLog(s.Of(TestBuild()));
  CHECK(Get(all, "xid").level == Level::kError);
  CHECK(Says(Get(all, "xid").found, "fell off the bus"));
  CHECK(Get(all, "kernel.memory").level == Level::kWarning);
  CHECK(Says(Get(all, "kernel.memory").found, "`trainer`"));
  CHECK(Get(all, "kernel.disk").level == Level::kError);
  s.kernel_log.reset();
  CHECK(Get(CheckKernelLog(s.Of(TestBuild())), "xid").level == Level::kAbsent);
}

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
  CHECK(Says(f.found, "4 CPUs are seen, 1.5 may be used"));
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
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.found, "3 CPUs are seen, 2.0 may be used"));
}

TEST_CASE("limits of threads and of the address space") {
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
  auto space = [&] { return Get(CheckLimits(s.Of(TestBuild())), "address_space"); };
  CHECK(space().level == Level::kOk);
  s.files["/proc/self/limits"] =
      "Max address space         68719476736          unlimited            bytes\n";
  CHECK(space().level == Level::kWarning);
  CHECK(Says(space().found, "64.0 GiB"));
  s.files["/proc/self/limits"] =
      "Max address space         4294967296           unlimited            bytes\n";
  CHECK(space().level == Level::kError);
  CHECK(Says(space().fix, "ulimit -v unlimited"));
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

TEST_CASE("few open files, a small /dev/shm") {
  FakeSystem s = HealthyMachine();
  auto files = [&](const std::string& soft) {
    s.files["/proc/self/limits"] = "Max open files            " + soft + "   4096   files\n";
    return Get(CheckLimits(s.Of(TestBuild())), "files").level;
  };
  CHECK(files("unlimited") == Level::kOk);
  CHECK(files("512") == Level::kWarning);
  CHECK(files("64") == Level::kError);
  s.spaces["/dev/shm"] = {64u << 20, 64u << 20, 0, 0, false};
  Finding f = Get(CheckLimits(s.Of(TestBuild())), "shm");
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.fix, "--shm-size"));
  s.spaces.erase("/dev/shm");
  CHECK(Get(CheckLimits(s.Of(TestBuild())), "shm").level == Level::kAbsent);
}

TEST_CASE("a full disk, one without inodes, a read-only one, no cache folder") {
  FakeSystem s = HealthyMachine();
  auto level = [&](const char* id) { return Get(CheckDisk(s.Of(TestBuild())), id).level; };
  s.spaces["/work"].free_bytes = 4'000'000'000;
  CHECK(level("disk.work") == Level::kWarning);
  s.spaces["/work"].free_bytes = 0;
  CHECK(level("disk.work") == Level::kError);
  s.spaces["/store"].free_files = 0;
  CHECK(level("disk.store") == Level::kError);
  s.spaces["/store"] = s.spaces["/data"];
  s.spaces["/store"].read_only = true;
  CHECK(level("disk.store") == Level::kError);
  s.writable.clear();
  CHECK(level("disk.cache") == Level::kWarning);
  s.variables.erase("HOME");
  CHECK(level("disk.cache") == Level::kWarning);
}

TEST_CASE("an empty machine: nothing is told, nothing is wrong, nothing crashes") {
  FakeSystem s;
  for (const Finding& f : CheckAll({s, TestBuild(), "/no/such/binary", "", "", ""})) {
    INFO(f.id << ": " << f.found);
    CHECK((f.level == Level::kAbsent || f.level == Level::kOk || f.id == "disk.cache"));
  }
}

}  // namespace
}  // namespace xp::doctor
