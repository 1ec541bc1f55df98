// A machine that a test makes up: a healthy one, of which each test spoils something.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "exp/doctor/checks.h"

namespace xp::doctor {

class FakeSystem : public System {
 public:
  std::map<std::string, std::string> files;
  std::map<std::string, std::string> links;  // of RealPath
  std::map<std::string, Space> spaces;       // by path
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> outputs;  // by program's first word
  std::map<std::pair<std::string, std::string>, int64_t> answers;
  std::vector<std::string> writable;
  std::set<std::string> folders;     // empty ones: others are where files lie
  std::set<std::string> lost_links;  // that lead nowhere
  std::set<std::string> forbidden;
  bool here = true;
  std::optional<std::string> kernel_log;
  Gpus gpus;
  std::string binary;  // of the program that looks; empty: not looked at

  std::optional<std::string> Text(const std::string& path) const override {
    auto it = files.find(path);
    return it == files.end() ? std::nullopt : std::optional(it->second);
  }
  std::optional<FileBytes> Bytes(const std::string& path) const override {
    auto it = files.find(path);
    if (it == files.end()) return std::nullopt;
    return FileBytes{nullptr, {it->second.data(), it->second.size()}};
  }
  bool IsHere() const override { return here; }
  bool IsForbidden(const std::string& path) const override { return forbidden.count(path) > 0; }
  bool Exists(const std::string& path) const override {
    if (path.ends_with("/.")) {
      const std::string folder = path.substr(0, path.size() - 2);
      return files.count(folder) == 0 && Exists(folder);
    }
    for (const auto& [name, text] : files) {
      if (name == path || name.starts_with(path + "/")) return true;
    }
    return spaces.count(path) + folders.count(path) > 0;
  }
  std::string RealPath(const std::string& path) const override {
    auto it = links.find(path);
    return it == links.end() ? path : it->second;
  }
  std::vector<std::string> Names(const std::string& folder) const override {
    std::vector<std::string> names;
    for (const auto& [name, text] : files) {
      if (!name.starts_with(folder + "/")) continue;
      std::string rest = name.substr(folder.size() + 1);
      rest = rest.substr(0, rest.find('/'));
      if (names.empty() || names.back() != rest) names.push_back(rest);
    }
    for (const std::string& link : lost_links) {
      if (link.rfind('/') == folder.size() && link.starts_with(folder)) {
        names.push_back(link.substr(folder.size() + 1));
      }
    }
    return names;
  }
  std::optional<Space> SpaceAt(const std::string& path) const override {
    auto it = spaces.find(path);
    return it == spaces.end() ? std::nullopt : std::optional(it->second);
  }
  bool CanWrite(const std::string& folder) const override {
    for (const std::string& w : writable) {
      if (w == folder) return true;
    }
    return false;
  }
  std::string Variable(const std::string& name) const override {
    auto it = variables.find(name);
    return it == variables.end() ? "" : it->second;
  }
  std::string Output(const std::vector<std::string>& command) const override {
    auto it = outputs.find(command.front());
    return it == outputs.end() ? "" : it->second;
  }
  std::optional<int64_t> Ask(const std::string& library, const std::string& name,
                             LibraryCall) const override {
    auto it = answers.find({library, name});
    return it == answers.end() ? std::nullopt : std::optional(it->second);
  }
  std::optional<std::string> KernelLog() const override { return kernel_log; }
  Gpus QueryGpus() const override { return gpus; }

  Subject Of(const graph::CudaBuild& build) const {
    return {*this, build, binary, "/data", "/store", "/work"};
  }
};

inline graph::CudaBuild TestBuild() {
  graph::CudaBuild build;
  build.compiled_in = true;
  build.runtime = "13.0";
  build.compiler = "13.0.88";
  build.host_compiler = "GNU 12.2.0";
  build.machine_code = {"75", "80", "90"};
  build.ptx = {"90"};
  return build;
}

inline FakeSystem HealthyMachine() {
  FakeSystem s;
  constexpr uint64_t kGib = 1u << 30;
  s.files["/sys/module/nvidia/version"] = "580.159.03\n";
  s.files["/proc/cpuinfo"] = "processor : 0\nprocessor : 1\nprocessor : 2\nprocessor : 3\n";
  for (int i = 0; i < 4; ++i) {
    std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(i) + "/cpufreq/";
    s.files[folder + "scaling_governor"] = "performance\n";
    s.files[folder + "scaling_driver"] = "acpi-cpufreq\n";
  }
  s.files["/sys/devices/system/cpu/cpufreq/boost"] = "1\n";
  s.files["/proc/meminfo"] =
      "MemTotal:       65536000 kB\nMemFree: 1000 kB\nMemAvailable:   60000000 kB\n"
      "SwapTotal:       8000000 kB\nSwapFree:        8000000 kB\n";
  s.files["/proc/pressure/memory"] = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
  s.files["/proc/self/cgroup"] = "0::/user.slice\n";
  s.files["/sys/fs/cgroup/cgroup.controllers"] = "cpu memory\n";
  s.files["/sys/fs/cgroup/user.slice/memory.max"] = "max\n";
  s.files["/sys/fs/cgroup/user.slice/cpu.max"] = "max 100000\n";
  s.files["/proc/self/limits"] =
      "Limit                     Soft Limit           Hard Limit           Units     \n"
      "Max open files            65536                65536                files     \n"
      "Max processes             96364                96364                processes \n"
      "Max address space         unlimited            unlimited            bytes     \n"
      "Max data size             unlimited            unlimited            bytes     \n"
      "Max file size             unlimited            unlimited            bytes     \n"
      "Max stack size            8388608              unlimited            bytes     \n"
      "Max cpu time              unlimited            unlimited            seconds   \n";
  s.spaces["/dev/shm"] = {32 * kGib, 32 * kGib, 0, 0, false};
  for (const char* path : {"/store", "/work", "/data"}) {
    s.spaces[path] = {1000 * kGib, 500 * kGib, 1000000, 900000, false};
  }
  s.spaces["/tmp"] = {100 * kGib, 50 * kGib, 0, 0, false};
  s.variables["HOME"] = "/home/u";
  s.files["/home/u/.cache/x"] = "";
  s.writable = {"/home/u/.cache", "/store", "/work", "/tmp"};
  s.kernel_log = "nvidia: loading out-of-tree module\n";
  s.outputs["nvcc"] = "Cuda compilation tools, release 13.0, V13.0.88\n";
  s.outputs["g++"] = "12.2.0\n";
  s.files["/etc/ld.so.conf"] = "include /etc/ld.so.conf.d/*.conf\n";
  s.files["/etc/ld.so.conf.d/cuda.conf"] = "/opt/cuda/lib64\n";
  std::string cudnn = "/opt/cuda/lib64/libcudnn.so.9";
  s.files[cudnn] = "";
  for (const char* part : {"graph", "ops", "cnn", "adv", "engines_precompiled",
                           "engines_runtime_compiled", "heuristic"}) {
    std::string path = std::string("/opt/cuda/lib64/libcudnn_") + part + ".so.9";
    s.files[path] = "";
    s.links[path] = path + ".19.0";
  }
  s.links[cudnn] = cudnn + ".19.0";
  s.answers[{cudnn, "cudnnGetVersion"}] = 91900;
  s.answers[{cudnn, "cudnnGetCudartVersion"}] = 13000;
  s.files["/usr/lib/x86_64-linux-gnu/libcuda.so.1"] = "";
  s.links["/usr/lib/x86_64-linux-gnu/libcuda.so.1"] =
      "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.03";
  s.answers[{"libcuda.so.1", "cuDriverGetVersion"}] = 13000;
  s.answers[{"libnccl.so.2", "ncclGetVersion"}] = 22809;

  s.gpus.loaded = true;
  s.gpus.driver = "580.159.03";
  s.gpus.cuda_driver = "13.0";
  GpuState gpu;
  gpu.about.name = "NVIDIA H200";
  gpu.about.major = 9;
  gpu.about.memory_bytes = 150'000'000'000;
  gpu.about.persistence = true;
  gpu.about.ecc = true;
  gpu.about.power_limit_mw = gpu.about.power_limit_default_mw = gpu.about.power_limit_max_mw =
      700000;
  gpu.about.max_sm_mhz = 1980;
  gpu.about.pcie_generation = 5;
  gpu.about.pcie_width = 16;
  gpu.about.slowdown_celsius = 87;
  gpu.errors.corrected = gpu.errors.uncorrected = 0;
  gpu.errors.remapped_corrected = gpu.errors.remapped_uncorrected = 0;
  gpu.errors.remap_pending = gpu.errors.remap_failed = false;
  gpu.now.celsius = 35;
  gpu.now.power_mw = 80000;
  gpu.now.sm_mhz = 345;
  gpu.now.gpu_percent = 0;
  gpu.now.throttle = 1;  // idle
  gpu.now.memory_used = 600'000'000;
  s.gpus.devices.push_back(gpu);
  return s;
}

inline const Finding& Get(const Findings& all, const std::string& id) {
  for (const Finding& f : all) {
    if (f.id == id) return f;
  }
  FAIL("no finding " << id);
  return all.front();
}

inline bool Says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  UNSCOPED_INFO("`" << part << "` isn't in: " << text);
  return false;
}

}  // namespace xp::doctor
