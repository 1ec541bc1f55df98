// Every state in which a check complains, made up: one line each. A check that is new, or a state
// that is, is to have a line here; the last test sees to the checks.
#include <fstream>
#include <iterator>
#include <set>

#include "catch.h"
#include "doctor/fake_system.h"
#include "doctor/faulty_backend.h"
#include "exp/doctor/doctor.h"
#include "exp/doctor/measure.h"
#include "exp/doctor/smoke.h"

namespace xp::doctor {
namespace {

using graph::CudaBuild;
using graph::OpType;
using Fault = FaultyBackend::Fault;

constexpr Level kWarning = Level::kWarning, kError = Level::kError;
constexpr uint64_t kGib = 1u << 30;

// ---- what is looked at: a healthy machine in which something is spoilt
struct Look {
  const char* id;
  Level level;
  const char* what;
  void (*spoil)(FakeSystem&, CudaBuild&);
};

GpuState& Gpu(FakeSystem& s) { return s.gpus.devices[0]; }

void Driver(FakeSystem& s, const char* version, const char* cuda) {
  s.files["/sys/module/nvidia/version"] = s.gpus.driver = version;
  s.gpus.cuda_driver = cuda;
}

void NoDriver(FakeSystem& s) {
  s.gpus = {};
  s.gpus.why = "libnvidia-ml.so.1: cannot open shared object file";
}

void Group(FakeSystem& s, const char* file, const char* text) {
  s.files[std::string("/sys/fs/cgroup/user.slice/") + file] = text;
}

void Ulimit(FakeSystem& s, const char* line) { s.files["/proc/self/limits"] = line; }

void Meminfo(FakeSystem& s, const char* available, const char* swap_free) {
  s.files["/proc/meminfo"] = std::string("MemTotal: 65536000 kB\nMemAvailable: ") + available +
                             " kB\nSwapTotal: 8000000 kB\nSwapFree: " + swap_free + " kB\n";
}

// This very program on a system whose libraries have nothing that it was linked against.
void OldLibraries(FakeSystem& s) {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  s.binary = "/app/exp";
  s.files[s.binary] = {std::istreambuf_iterator<char>(in), {}};
}

constexpr const char* kCudnn = "/opt/cuda/lib64/libcudnn.so.9";
constexpr const char* kNccl = "/opt/cuda/lib64/libnccl.so.2";
constexpr const char* kLibcuda = "/usr/lib/x86_64-linux-gnu/libcuda.so.1";

const Look kLooks[] = {
    {"driver", kError, "a card, but no driver",
     [](FakeSystem& s, CudaBuild&) {
       NoDriver(s);
       s.files.erase("/sys/module/nvidia/version");
       s.files["/sys/bus/pci/devices/0000:01:00.0/vendor"] = "0x10de\n";
       s.files["/sys/bus/pci/devices/0000:01:00.0/class"] = "0x030200\n";
     }},
    {"driver", kError, "a container without the driver's libraries",
     [](FakeSystem& s, CudaBuild&) { NoDriver(s); }},
    {"driver", kError, "libraries of another version than the kernel module",
     [](FakeSystem& s, CudaBuild&) { s.gpus.driver = "575.51.03"; }},
    {"driver", kError, "updated while it was in use",
     [](FakeSystem& s, CudaBuild&) {
       NoDriver(s);
       s.gpus.why = "Driver/library version mismatch";
     }},
    {"driver", kWarning, "the cards are hidden, or fell off the bus",
     [](FakeSystem& s, CudaBuild&) { s.gpus.devices.clear(); }},
    {"driver", kError, "a card that is lost",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).about.problem = "GPU is lost"; }},
    {"driver.runtime", kError, "an old driver",
     [](FakeSystem& s, CudaBuild&) { Driver(s, "470.42.01", "11.4"); }},
    {"driver.runtime", kWarning, "a program without CUDA beside a card",
     [](FakeSystem&, CudaBuild& b) { b = {}; }},
    {"driver.libcuda", kError, "the stub",
     [](FakeSystem& s, CudaBuild&) { s.links[kLibcuda] = "/cuda/lib64/stubs/libcuda.so"; }},
    {"driver.libcuda", kError, "it doesn't answer",
     [](FakeSystem& s, CudaBuild&) {
       s.answers.erase({"libcuda.so.1", "cuDriverGetVersion"});
     }},
    {"driver.libcuda", kError, "an older one",
     [](FakeSystem& s, CudaBuild&) { s.links[kLibcuda] = "/old/libcuda.so.535.104.05"; }},
    {"driver.libcuda", kError, "cuda-compat on a GeForce",
     [](FakeSystem& s, CudaBuild&) {
       s.links[kLibcuda] = "/compat/libcuda.so.590.44.01";
       Gpu(s).about.name = "NVIDIA GeForce RTX 4090";
     }},
    {"gpu.0.code", kError, "a card older than all code",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).about.major = 7; }},
    {"gpu.0.code", kError, "only PTX, which the driver can't compile",
     [](FakeSystem& s, CudaBuild&) {
       Gpu(s).about.major = 10;
       s.gpus.cuda_driver = "12.8";
     }},
    {"gpu.0.code", kWarning, "only PTX",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).about.major = 10; }},
    {"cudnn", kError, "absent", [](FakeSystem& s, CudaBuild&) { s.files.erase(kCudnn); }},
    {"cudnn", kError, "it doesn't load",
     [](FakeSystem& s, CudaBuild&) {
       s.answers.erase({kCudnn, "cudnnGetVersion"});
     }},
    {"cudnn", kWarning, "it doesn't load, without a GPU",
     [](FakeSystem& s, CudaBuild&) {
       s.answers.erase({kCudnn, "cudnnGetVersion"});
       s.gpus.devices.clear();
     }},
    {"cudnn", kError, "cuDNN 8",
     [](FakeSystem& s, CudaBuild&) {
       s.answers[{kCudnn, "cudnnGetVersion"}] = 8902;
     }},
    {"cudnn", kError, "for a newer CUDA than the driver's",
     [](FakeSystem& s, CudaBuild&) { s.gpus.cuda_driver = "12.4"; }},
    {"cudnn.parts", kError, "a part of another version",
     [](FakeSystem& s, CudaBuild&) {
       s.links["/opt/cuda/lib64/libcudnn_ops.so.9"] = "/opt/cuda/lib64/libcudnn_ops.so.9.1.0";
     }},
    {"cudnn.parts", kError, "a part of another version, which only newer ones have",
     [](FakeSystem& s, CudaBuild&) {
       const std::string file = "/opt/cuda/lib64/libcudnn_engines_tensor_ir.so.9";
       s.files[file] = "";
       s.links[file] = file + ".23.0";
     }},
    {"cudnn.parts", kError, "a part that is missing",
     [](FakeSystem& s, CudaBuild&) { s.files.erase("/opt/cuda/lib64/libcudnn_heuristic.so.9"); }},
    {"nccl", kWarning, "several GPUs without it",
     [](FakeSystem& s, CudaBuild&) {
       s.answers.erase({"libnccl.so.2", "ncclGetVersion"});
       s.gpus.devices.push_back(Gpu(s));
     }},
    {"nccl", kWarning, "for a newer CUDA than the driver's",
     [](FakeSystem& s, CudaBuild&) { s.files[kNccl] = "..NCCL version 2.30.7+cuda14.1\n"; }},
    {"nvcc", kWarning, "a compiler newer than nvcc knows",
     [](FakeSystem& s, CudaBuild&) { s.outputs["g++"] = "16.1.0\n"; }},
    {"nvcc.driver", kWarning, "a toolkit newer than the driver",
     [](FakeSystem& s, CudaBuild&) {
       s.outputs["nvcc"] = "Cuda compilation tools, release 14.0, V14.0.1\n";
     }},
    {"glibc", kError, "a system without what the program needs",
     [](FakeSystem& s, CudaBuild&) { OldLibraries(s); }},

    {"gpu.0.use", kError, "compute mode prohibited",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).about.compute_mode = 2; }},
    {"gpu.0.use", kWarning, "its memory in use",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).now.memory_used = 100'000'000'000; }},
    {"gpu.0.use", kWarning, "busy", [](FakeSystem& s, CudaBuild&) { Gpu(s).now.gpu_percent = 60; }},
    {"gpu.0.heat", kError, "hot", [](FakeSystem& s, CudaBuild&) { Gpu(s).now.celsius = 86; }},
    {"gpu.0.heat", kWarning, "warm at rest",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).now.celsius = 75; }},
    {"gpu.0.power", kWarning, "capped",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).about.power_limit_mw = 350000; }},
    {"gpu.0.persistence", kWarning, "off",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).about.persistence = false; }},
    {"gpu.0.throttle", kWarning, "held down at rest",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).now.throttle = 0x40; }},
    {"gpu.0.ecc", kError, "uncorrected errors",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).errors.uncorrected = 1; }},
    {"gpu.0.ecc", kError, "a row that can't be remapped",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).errors.remap_failed = true; }},
    {"gpu.0.ecc", kWarning, "a row waits for a reset",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).errors.remap_pending = true; }},
    {"gpu.0.ecc", kWarning, "a page waits for a reset",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).errors.retirement_pending = true; }},
    {"gpu.0.ecc", kWarning, "many retired pages",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).errors.retired_pages = 60; }},
    {"gpu.0.ecc", kWarning, "a row remapped after an uncorrected error",
     [](FakeSystem& s, CudaBuild&) { Gpu(s).errors.remapped_uncorrected = 1; }},
    {"xid", kError, "of the card",
     [](FakeSystem& s, CudaBuild&) {
       s.kernel_log = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n";
     }},
    {"xid", kError, "an unknown one",
     [](FakeSystem& s, CudaBuild&) { s.kernel_log = "NVRM: Xid (PCI:0000:3b:00): 999, ?\n"; }},
    {"xid", kWarning, "of a program",
     [](FakeSystem& s, CudaBuild&) {
       s.kernel_log = "NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python, MMU Fault\n";
     }},
    {"kernel.memory", kWarning, "a program was killed",
     [](FakeSystem& s, CudaBuild&) {
       s.kernel_log = "Memory cgroup out of memory: Killed process 77 (trainer) total-vm:1kB\n";
     }},
    {"kernel.disk", kError, "I/O errors",
     [](FakeSystem& s, CudaBuild&) { s.kernel_log = "I/O error, dev nvme0n1, sector 5\n"; }},
    {"kernel.disk", kError, "a file system that became read-only",
     [](FakeSystem& s, CudaBuild&) {
       s.kernel_log = "EXT4-fs (sda1): Remounting filesystem read-only\n";
     }},

    {"cpu.governor", kWarning, "powersave",
     [](FakeSystem& s, CudaBuild&) {
       s.files["/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"] = "powersave\n";
     }},
    {"cpu.turbo", kWarning, "off, by acpi-cpufreq",
     [](FakeSystem& s, CudaBuild&) { s.files["/sys/devices/system/cpu/cpufreq/boost"] = "0\n"; }},
    {"cpu.turbo", kWarning, "off, by intel_pstate",
     [](FakeSystem& s, CudaBuild&) {
       s.files["/sys/devices/system/cpu/intel_pstate/no_turbo"] = "1\n";
     }},
    {"cpu.limit", kWarning, "one CPU of a container",
     [](FakeSystem& s, CudaBuild&) { Group(s, "cpu.max", "100000 100000\n"); }},
    {"cpu.processes", kWarning, "few threads left",
     [](FakeSystem& s, CudaBuild&) { Group(s, "pids.max", "200\n"); }},
    {"cpu.processes", kError, "next to none left",
     [](FakeSystem& s, CudaBuild&) {
       Group(s, "pids.max", "200\n");
       Group(s, "pids.current", "190\n");
     }},
    {"memory", kWarning, "little",
     [](FakeSystem& s, CudaBuild&) { Meminfo(s, "3000000", "8000000"); }},
    {"memory", kError, "next to none",
     [](FakeSystem& s, CudaBuild&) { Meminfo(s, "100000", "8000000"); }},
    {"swap", kWarning, "swapped out",
     [](FakeSystem& s, CudaBuild&) { Meminfo(s, "60000000", "1000000"); }},
    {"swap", kWarning, "waiting for memory",
     [](FakeSystem& s, CudaBuild&) {
       s.files["/proc/pressure/memory"] = "some avg10=0.00 avg60=12.50 avg300=0.00 total=0\n";
     }},
    {"memory.limit", kWarning, "a small container",
     [](FakeSystem& s, CudaBuild&) { Group(s, "memory.max", "4294967296\n"); }},
    {"memory.limit", kError, "a tiny container",
     [](FakeSystem& s, CudaBuild&) { Group(s, "memory.max", "1073741824\n"); }},
    {"memory.limit", kError, "a full container",
     [](FakeSystem& s, CudaBuild&) {
       Group(s, "memory.max", "17179869184\n");
       Group(s, "memory.current", "17179000000\n");
     }},

    {"files", kWarning, "few",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max open files 512 1 files"); }},
    {"files", kError, "very few",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max open files 64 1 files"); }},
    {"processes", kWarning, "few",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max processes 512 1 processes"); }},
    {"processes", kError, "very few",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max processes 100 1 processes"); }},
    {"address_space", kWarning, "limited",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max address space 68719476736 1 bytes"); }},
    {"address_space", kError, "small",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max address space 4294967296 1 bytes"); }},
    {"data_size", kWarning, "limited",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max data size 68719476736 1 bytes"); }},
    {"data_size", kError, "small",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max data size 4294967296 1 bytes"); }},
    {"file_size", kWarning, "limited",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max file size 8589934592 1 bytes"); }},
    {"file_size", kError, "small",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max file size 10240 1 bytes"); }},
    {"stack", kWarning, "small",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max stack size 1572864 1 bytes"); }},
    {"stack", kError, "tiny",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max stack size 65536 1 bytes"); }},
    {"cpu_time", kWarning, "a day",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max cpu time 86400 1 seconds"); }},
    {"cpu_time", kError, "minutes",
     [](FakeSystem& s, CudaBuild&) { Ulimit(s, "Max cpu time 600 1 seconds"); }},

    {"shm", kWarning, "64 MiB, as docker gives",
     [](FakeSystem& s, CudaBuild&) {
       s.spaces["/dev/shm"] = {kGib / 16, kGib / 16, 0, 0, false};
     }},
    {"shm", kWarning, "full",
     [](FakeSystem& s, CudaBuild&) { s.spaces["/dev/shm"].free_bytes = 0; }},
    {"disk.store", kWarning, "little space",
     [](FakeSystem& s, CudaBuild&) { s.spaces["/store"].free_bytes = kGib / 2; }},
    {"disk.store", kError, "no inodes",
     [](FakeSystem& s, CudaBuild&) { s.spaces["/store"].free_files = 0; }},
    {"disk.store", kError, "read-only",
     [](FakeSystem& s, CudaBuild&) { s.spaces["/store"].read_only = true; }},
    {"disk.work", kWarning, "little space",
     [](FakeSystem& s, CudaBuild&) { s.spaces["/work"].free_bytes = 4 * kGib; }},
    {"disk.work", kError, "full",
     [](FakeSystem& s, CudaBuild&) { s.spaces["/work"].free_bytes = 0; }},
    {"disk.work", kError, "of another user",
     [](FakeSystem& s, CudaBuild&) { s.writable = {"/store", "/tmp"}; }},
    {"disk.tmp", kWarning, "TMPDIR that is gone",
     [](FakeSystem& s, CudaBuild&) { s.variables["TMPDIR"] = "/gone"; }},
    {"disk.tmp", kWarning, "little space",
     [](FakeSystem& s, CudaBuild&) { s.spaces["/tmp"].free_bytes = kGib / 16; }},
    {"disk.tmp", kError, "full",
     [](FakeSystem& s, CudaBuild&) { s.spaces["/tmp"].free_bytes = 0; }},
    {"disk.cache", kWarning, "no HOME",
     [](FakeSystem& s, CudaBuild&) { s.variables.erase("HOME"); }},
    {"disk.cache", kWarning, "of another user",
     [](FakeSystem& s, CudaBuild&) { s.writable = {"/store", "/work", "/tmp"}; }},
};

// ---- what is computed and measured
struct Measured {
  const char* id;
  Level level;
  const char* what;
  Finding (*find)();
};

Finding Smoke(const char* id, OpType type, Fault fault) {
  auto reference = graph::CreateCpuBackend(1);
  FaultyBackend device(type, fault);
  return Get(SmokeTests(device, *reference, {}), id);
}

// fp32 and tf32 on a GPU whose products are wrong, or only those of tf32.
Finding Tf32(bool fp32_wrong, Fault fault = Fault::kAlways) {
  return Tf32Error([=](bool tf32) -> std::unique_ptr<graph::Backend> {
    if (!tf32 && !fp32_wrong) return graph::CreateCpuBackend(1);
    return std::make_unique<FaultyBackend>(OpType::kLinear, fault);
  });
}

// Children of a shell stand for this program: the first is alone, the next two come together.
Finding Two(const std::string& body) {
  return TwoProcesses({"sh", "-c", "echo ready; read word; " + body});
}

LoadSeen Seen(uint64_t throttle, int generation, int width) {
  LoadSeen seen;
  FakeSystem s = HealthyMachine();
  seen.about = Gpu(s).about;
  seen.seconds = 20;
  snapshot::Nvml::Sample sample;
  sample.sm_mhz = 1200;
  sample.throttle = throttle;
  sample.pcie_generation = generation;
  sample.pcie_width = width;
  seen.samples.assign(100, sample);
  return seen;
}

Findings Reads(double bytes_a_second, double files_a_second) {
  ReadSpeed reads;
  reads.sequential_bytes_a_second = bytes_a_second;
  reads.small_files_a_second = files_a_second;
  return JudgeReads("/data", reads);
}

Findings Loader(double images_a_second, double files_a_second) {
  ReadSpeed reads;
  reads.small_files_a_second = files_a_second;
  DecodeSpeed decode;
  decode.images_a_second_core = decode.images_a_second_all = images_a_second;
  decode.megapixels = 0.19;
  return JudgeLoader(reads, decode, 1000);
}

const Measured kMeasured[] = {
    {"cpu.threads", kError, "fewer threads than CPUs", [] { return JudgeThreads(3, 16); }},
    {"memory.test", kError, "words that read back otherwise",
     [] {
       return JudgeMemory(-1, {kGib, 1, 2, 0.5});
     }},
    {"gpu.0.memory", kError, "words that read back otherwise",
     [] {
       return JudgeMemory(0, {kGib, 3, 4, 0.5});
     }},
    {"smoke.device", kError, "a device that doesn't open",
     [] { return DoesNotOpen(JobError({.what = "CUDA error 999"})); }},
    {"smoke.conv", kError, "wrong values",
     [] { return Smoke("smoke.conv", OpType::kConv2d, Fault::kAlways); }},
    {"smoke.conv", kError, "wrong gradients",
     [] { return Smoke("smoke.conv", OpType::kConv2dWgrad, Fault::kAlways); }},
    {"smoke.conv", kError, "other bits the second time",
     [] { return Smoke("smoke.conv", OpType::kConv2d, Fault::kSometimes); }},
    {"smoke.conv", kError, "it doesn't run",
     [] { return Smoke("smoke.conv", OpType::kConv2d, Fault::kThrows); }},
    {"smoke.conv_bf16", kError, "wrong values",
     [] { return Smoke("smoke.conv_bf16", OpType::kConv2d, Fault::kAlways); }},
    {"smoke.norm", kError, "wrong values",
     [] { return Smoke("smoke.norm", OpType::kBatchNorm, Fault::kAlways); }},
    {"smoke.roi_align", kError, "wrong values",
     [] { return Smoke("smoke.roi_align", OpType::kRoiAlign, Fault::kAlways); }},
    {"smoke.nms", kError, "wrong values",
     [] { return Smoke("smoke.nms", OpType::kRpnProposals, Fault::kAlways); }},
    {"smoke.topk", kError, "other bits the second time",
     [] { return Smoke("smoke.topk", OpType::kRpnProposals, Fault::kSometimes); }},
    {"smoke.product", kError, "wrong values",
     [] { return Smoke("smoke.product", OpType::kLinear, Fault::kAlways); }},
    {"smoke.train", kError, "wrong losses",
     [] { return Smoke("smoke.train", OpType::kLinear, Fault::kAlways); }},
    {"smoke.train", kError, "other weights the second time",
     [] { return Smoke("smoke.train", OpType::kLinear, Fault::kSometimes); }},
    {"smoke.train", kError, "it doesn't run",
     [] { return Smoke("smoke.train", OpType::kLinear, Fault::kThrows); }},
    {"smoke.tf32", kError, "what should be fp32 isn't", [] { return Tf32(true); }},
    {"smoke.tf32", kError, "wrong products in tf32", [] { return Tf32(false); }},
    {"smoke.tf32", kError, "it doesn't run", [] { return Tf32(false, Fault::kThrows); }},
    {"smoke.two_processes", kError, "a process that ends without a result",
     [] { return Two("exit 1"); }},
    {"smoke.two_processes", kError, "each process gives another result",
     [] { return Two("echo hash $$"); }},
    {"gpu.0.load", kError, "the load ends with an error",
     [] { return LoadFailed(0, JobError({.what = "CUDA error 719"})); }},
    {"gpu.0.load", kWarning, "held down by heat",
     [] { return Get(CheckUnderLoad(Seen(0x20, 5, 16)), "gpu.0.load"); }},
    {"gpu.0.load", kWarning, "held down by a cap",
     [] {
       LoadSeen seen = Seen(0x04, 5, 16);
       seen.about.power_limit_mw = 400000;
       return Get(CheckUnderLoad(seen), "gpu.0.load");
     }},
    {"gpu.0.pcie", kWarning, "few lanes",
     [] { return Get(CheckUnderLoad(Seen(0, 5, 4)), "gpu.0.pcie"); }},
    {"gpu.0.pcie", kWarning, "an old generation",
     [] { return Get(CheckUnderLoad(Seen(0, 3, 16)), "gpu.0.pcie"); }},
    {"gpu.0.speed", kWarning, "slower as it gets warm",
     [] {
       LoadResult load;
       load.first_flop_a_second = 800e12;
       load.flop_a_second = 500e12;
       return JudgeSpeedUnderLoad(load);
     }},
    {"disk.read", kWarning, "slow", [] { return Get(Reads(50e6, 5000), "disk.read"); }},
    {"disk.files", kWarning, "slow", [] { return Get(Reads(500e6, 200), "disk.files"); }},
    {"decode", kWarning, "slow", [] { return Get(Loader(20, 5000), "decode"); }},
    {"loader", kWarning, "bounded by the disk", [] { return Get(Loader(5000, 200), "loader"); }},
    {"loader", kWarning, "bounded by decoding", [] { return Get(Loader(500, 5000), "loader"); }},
    {"library", kError, "one that isn't there",
     [] { return CheckLibrary(FakeSystem(), "/no/such.so").front(); }},
};

void CheckComplaint(const Finding& f, const char* id, Level level) {
  INFO(f.found << " / " << f.needed << " / " << f.why << " / " << f.fix);
  CHECK(f.id == id);
  CHECK(f.level == level);
  CHECK_FALSE(f.group.empty());
  CHECK_FALSE(f.found.empty());
  CHECK_FALSE(f.needed.empty());
  CHECK_FALSE(f.why.empty());
  CHECK_FALSE(f.fix.empty());
}

TEST_CASE("each failing state that can be looked at is told, with what is needed, why and a fix") {
  for (const Look& state : kLooks) {
    INFO(state.id << ": " << state.what);
    FakeSystem s = HealthyMachine();
    CudaBuild build = TestBuild();
    state.spoil(s, build);
    CheckComplaint(Get(CheckAll(s.Of(build)), state.id), state.id, state.level);
  }
}

TEST_CASE("each failing state that is computed or measured is told in the same way") {
  for (const Measured& state : kMeasured) {
    INFO(state.id << ": " << state.what);
    CheckComplaint(state.find(), state.id, state.level);
  }
}

TEST_CASE("every check has a failing state above") {
  std::set<std::string> faked;
  for (const Look& state : kLooks) faked.insert(state.id);
  for (const Measured& state : kMeasured) faked.insert(state.id);
  // They tell, and judge nothing.
  const std::set<std::string> never = {"device.speed", "smoke"};

  FakeSystem healthy = HealthyMachine();
  OldLibraries(healthy);
  Findings all = CheckAll(healthy.Of(TestBuild()));
  for (const Finding& f : CheckAll(FakeSystem().Of(TestBuild()))) all.push_back(f);
  for (const Finding& f : CheckUnderLoad({})) all.push_back(f);
  DoctorOptions here;
  here.device = "cpu";
  here.data = here.store = here.work = "/";
  for (const Finding& f : Examine(here).findings) all.push_back(f);
  std::set<std::string> seen;
  for (const Finding& f : all) {
    if (never.count(f.id)) continue;
    seen.insert(f.id);
    INFO(f.id << " complains in no state of this file");
    CHECK(faked.count(f.id) == 1);
  }
  CHECK(seen.size() > 40);
}

}  // namespace
}  // namespace xp::doctor
