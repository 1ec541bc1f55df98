// Faults of cards, through a fake of NVML and of the kernel's log.
#include "catch.h"
#include "doctor/fake_system.h"

namespace xp::doctor {
namespace {

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
  for (auto& x : seen.samples) x.pcie_width = 16, x.pcie_generation = 3;
  f = Get(CheckUnderLoad(seen), "gpu.0.pcie");
  CHECK(f.level == Level::kWarning);
  CHECK(f.found == "generation 3 x16 under load");
  CHECK(f.needed == "generation 5 x16");
  CHECK(Says(f.fix, "link speed"));
  // The link sleeps between two transfers: its best counts.
  seen.samples.back().pcie_generation = 5;
  CHECK(Get(CheckUnderLoad(seen), "gpu.0.pcie").level == Level::kOk);
  for (auto& x : seen.samples) x.pcie_generation.reset();
  CHECK(Get(CheckUnderLoad(seen), "gpu.0.pcie").level == Level::kAbsent);
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

TEST_CASE("how kernels of all ages write that a program was killed for memory") {
  FakeSystem s = HealthyMachine();
  auto killed = [&](const char* log) {
    s.kernel_log = log;
    return Get(CheckKernelLog(s.Of(TestBuild())), "kernel.memory");
  };
  // Linux 3.10 (CentOS 7), 4.15 (Ubuntu 18.04), 5 and later, of the machine and of a group.
  CHECK(Says(killed("Out of memory: Kill process 77 (trainer) score 900 or sacrifice child\n"
                    "Killed process 77 (trainer) total-vm:1kB, anon-rss:1kB, file-rss:0kB\n")
                 .found,
             "one program was killed for memory, last `trainer`"));
  CHECK(Says(killed("Memory cgroup out of memory: Kill process 8 (a) score 1 or sacrifice child\n"
                    "Killed process 8 (a) total-vm:1kB\n"
                    "Memory cgroup out of memory: Kill process 9 (b) score 1 or sacrifice child\n"
                    "Killed process 9 (b) total-vm:1kB\n")
                 .found,
             "2 programs were killed for memory, last `b`"));
  CHECK(Says(killed("Jun 1 (x) kernel: Out of memory: Killed process 77 (y) total-vm:1kB\n").found,
             "last `y`"));
  CHECK(killed("oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=a,pid=7,uid=0\n").level ==
        Level::kOk);
}

TEST_CASE("disk errors of several file systems; a drive without a disk in it is none") {
  FakeSystem s = HealthyMachine();
  for (const char* error :
       {"blk_update_request: I/O error, dev nvme0n1, sector 5 op 0x0:(READ)",
        "critical medium error, dev sdb, sector 8", "Buffer I/O error on dev dm-0, logical block 1",
        "XFS (sda1): metadata I/O error in \"xfs_buf_ioend\" at daddr 0x2",
        "XFS (dm-0): Corruption detected. Unmount and run xfs_repair",
        "BTRFS error (device sda2): bdev /dev/sda2 errs: wr 0, rd 1",
        "BTRFS info (device sda2): forced readonly",
        "EXT4-fs error (device sda1): ext4_lookup:1855: inode #2: comm python"}) {
    INFO(error);
    s.kernel_log = error;
    CHECK(Get(CheckKernelLog(s.Of(TestBuild())), "kernel.disk").level == Level::kError);
  }
  for (const char* none :
       {"blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ)",
        "Buffer I/O error on dev sr0, logical block 0, async page read",
        "floppy: error -5 while reading block 0", "EXT4-fs (sda1): mounted filesystem r/w"}) {
    INFO(none);
    s.kernel_log = none;
    CHECK(Get(CheckKernelLog(s.Of(TestBuild())), "kernel.disk").level == Level::kOk);
  }
}

TEST_CASE("one of two cards is lost: it is told once, and the other one is looked at") {
  FakeSystem s = HealthyMachine();
  GpuState lost;
  lost.index = 1;
  lost.about.problem = "GPU is lost";
  s.gpus.devices.push_back(lost);
  const Findings all = CheckAll(s.Of(TestBuild()));
  const Finding driver = Get(all, "driver");
  CHECK(driver.level == Level::kError);
  CHECK(Says(driver.found, "NVIDIA H200 and a card that doesn't answer; card 1: GPU is lost"));
  for (const Finding& f : all) CHECK_FALSE(f.id.starts_with("gpu.1."));
  CHECK(Get(all, "gpu.0.code").level == Level::kOk);
}

TEST_CASE("a card for one process at a time says so") {
  FakeSystem s = HealthyMachine();
  for (auto [mode, exclusive] : {std::pair(0, false), {1, true}, {2, false}, {3, true}}) {
    s.gpus.devices[0].about.compute_mode = mode;
    INFO(mode);
    CHECK(OneProcessOnly(s.gpus.devices[0].about) == exclusive);
    CHECK(Says(Get(CheckGpuHealth(s.Of(TestBuild())), "gpu.0.use").found, "exclusive") ==
          exclusive);
  }
}

TEST_CASE("others in their MIG instances take nothing from this one") {
  FakeSystem s = HealthyMachine();
  GpuState& gpu = s.gpus.devices[0];
  gpu.now.memory_used = *gpu.about.memory_bytes / 2;
  CHECK(Get(CheckGpuHealth(s.Of(TestBuild())), "gpu.0.use").level == Level::kWarning);
  gpu.about.mig = true;
  const Finding f = Get(CheckGpuHealth(s.Of(TestBuild())), "gpu.0.use");
  CHECK(f.level == Level::kOk);
  CHECK(Says(f.found, "split into MIG instances"));
}

TEST_CASE("a card that tells no temperature to slow down at isn't hot") {
  FakeSystem s = HealthyMachine();
  s.gpus.devices[0].now.celsius = 40;
  s.gpus.devices[0].about.slowdown_celsius = 0;
  CHECK(Get(CheckGpuHealth(s.Of(TestBuild())), "gpu.0.heat").level == Level::kOk);
}

TEST_CASE("what a card doesn't tell is absent, neither idle nor unhindered") {
  FakeSystem s = HealthyMachine();
  GpuState& gpu = s.gpus.devices[0];
  auto row = [&](const char* id) { return Get(CheckGpuHealth(s.Of(TestBuild())), id); };
  gpu.now.throttle.reset();
  CHECK(row("gpu.0.throttle").level == Level::kAbsent);
  CHECK(row("gpu.0.throttle").found == "the card doesn't tell what holds its clocks down");
  gpu.now.gpu_percent.reset();  // as of a card that is split
  CHECK(row("gpu.0.use").level == Level::kOk);
  CHECK(row("gpu.0.use").found ==
        "the card doesn't tell how busy it is, 0.6 GiB of 140 GiB in use");
  gpu.now.memory_used.reset();
  CHECK(row("gpu.0.use").level == Level::kAbsent);
  CHECK(row("gpu.0.use").found == "the card doesn't tell how busy and how full it is");
  gpu.now.gpu_percent = 3;
  CHECK(row("gpu.0.use").found == "3 % busy");
  LoadSeen seen;
  snapshot::Nvml::Sample told, silent;
  told.sm_mhz = 1000, told.throttle = 0x20;
  seen.samples = {told, silent, silent, silent, told};
  CHECK(Says(Get(CheckUnderLoad(seen), "gpu.0.load").found, "held down by heat 100 % of the time"));
}

TEST_CASE(
    "a card that doesn't tell how busy it is isn't taken for idle, and one without a name has "
    "one") {
  FakeSystem s = HealthyMachine();
  GpuState& gpu = s.gpus.devices[0];
  auto row = [&](const char* id) { return Get(CheckAll(s.Of(TestBuild())), id); };
  gpu.now.throttle = 0x20, gpu.now.celsius = 75;
  CHECK(row("gpu.0.throttle").level == Level::kWarning);
  CHECK(row("gpu.0.heat").level == Level::kWarning);
  CHECK(row("gpu.0.heat").found == "75 C at rest");
  for (const std::optional<int> busy : {std::optional(97), std::optional<int>()}) {
    gpu.now.gpu_percent = busy;
    CHECK(row("gpu.0.throttle").level == Level::kOk);
    CHECK(row("gpu.0.heat").level == Level::kOk);
    CHECK(row("gpu.0.heat").found == "75 C");
  }
  gpu.about.name.clear();
  CHECK(row("driver").found == "580.159.03, runs CUDA 13.0; a card that tells no name");
  gpu.about.major = 0;
  CHECK(row("gpu.0.code").level == Level::kAbsent);
  CHECK(Says(row("gpu.0.code").found, "doesn't tell its compute capability"));
}

}  // namespace
}  // namespace xp::doctor
