#include "exp/snapshot/environment.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "exp/snapshot/redact.h"
#include "src/snapshot/probe.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace xp::snapshot {
namespace {

// Variables that change what numbers come out, or how fast.
const char* const kVariables[] = {"CUDA_VISIBLE_DEVICES",
                                  "CUDA_DEVICE_ORDER",
                                  "CUDA_LAUNCH_BLOCKING",
                                  "CUBLAS_WORKSPACE_CONFIG",
                                  "NVIDIA_TF32_OVERRIDE",
                                  "CUDNN_LOGLEVEL_DBG",
                                  "NCCL_ALGO",
                                  "NCCL_PROTO",
                                  "NCCL_DEBUG",
                                  "OMP_NUM_THREADS",
                                  "OMP_PROC_BIND",
                                  "OMP_PLACES",
                                  "OMP_DYNAMIC",
                                  "GOMP_CPU_AFFINITY",
                                  "KMP_AFFINITY",
                                  "MKL_NUM_THREADS",
                                  "MKL_CBWR",
                                  "OPENBLAS_NUM_THREADS",
                                  "OPENBLAS_CORETYPE",
                                  "DNNL_MAX_CPU_ISA",
                                  "ONEDNN_MAX_CPU_ISA",
                                  "DNNL_CPU_ISA_HINTS",
                                  "GLIBC_TUNABLES",
                                  "LD_PRELOAD",
                                  "LD_LIBRARY_PATH",
                                  "MALLOC_ARENA_MAX",
                                  "PYTHONHASHSEED",
                                  "LANG",
                                  "LC_ALL",
                                  "LC_NUMERIC",
                                  "TZ",
                                  "SLURM_JOB_ID",
                                  "SLURM_NTASKS",
                                  "SLURM_PROCID",
                                  "WORLD_SIZE",
                                  "RANK",
                                  "LOCAL_RANK"};

std::string OsName() {
  std::ifstream in("/etc/os-release");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind("PRETTY_NAME=", 0) != 0) continue;
    line = line.substr(12);
    if (line.size() >= 2 && line[0] == '"') line = line.substr(1, line.size() - 2);
    return line;
  }
  return "";
}

std::string Container() {
  std::error_code error;
  if (fs::exists("/.dockerenv", error)) return "docker";
  if (fs::exists("/run/.containerenv", error)) return "podman";
  if (std::getenv("SINGULARITY_NAME") || std::getenv("APPTAINER_NAME")) return "apptainer";
  if (std::getenv("KUBERNETES_SERVICE_HOST")) return "kubernetes";
  std::string groups = FirstLineOf("/proc/1/cgroup");
  for (const char* hint : {"docker", "lxc", "kubepods", "containerd"}) {
    if (groups.find(hint) != std::string::npos) return hint;
  }
  return "";
}

std::string TimeZone() {
  std::time_t now = std::time(nullptr);
  std::tm local{};
  if (!localtime_r(&now, &local)) return "";
  char text[64];
  size_t n = std::strftime(text, sizeof(text), "%Z %z", &local);
  return std::string(text, n);
}

json Variables(const EnvironmentOptions& options, Redactor& redactor) {
  json out = json::object();
  std::set<std::string> names(std::begin(kVariables), std::end(kVariables));
  names.insert(options.variables.begin(), options.variables.end());
  for (const std::string& name : names) {
    const char* value = std::getenv(name.c_str());
    if (!value) continue;
    std::string place = "environment " + name;
    out[name] = Redactor::SecretName(name) ? redactor.Secret(value, "environment-secret", place)
                                           : redactor.Text(value, place);
  }
  return out;
}

}  // namespace

std::string FirstLineOf(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string Trim(std::string text) {
  size_t begin = text.find_first_not_of(" \t\r\n"), end = text.find_last_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

json ProbeProgram() {
  std::error_code error;
  std::string flags = EXP_FLAGS;
  return {{"name", "exp"},
          {"version", EXP_VERSION},
          {"build", EXP_BUILD_TYPE},
          {"compiler", EXP_COMPILER},
          {"flags", Trim(flags)},
          {"path", fs::read_symlink("/proc/self/exe", error).string()},
          {"build_id", ProgramBuildId()}};
}

json ProbeSystem() {
  struct utsname system;
  json out = {{"name", OsName()},
              {"glibc", gnu_get_libc_version()},
              {"time_zone", TimeZone()},
              {"container", Container()}};
  // What programs that ask for it get; ours stays in "C", where a point is a point.
  out["locale"] = "C";
  for (const char* name : {"LC_ALL", "LC_NUMERIC", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    out["locale"] = value;
    break;
  }
  if (::uname(&system) == 0) {
    out["kernel"] = std::string(system.sysname) + " " + system.release;
    out["kernel_build"] = system.version;
    out["machine"] = system.machine;
    out["host"] = system.nodename;
  }
  return out;
}

json ProbeCpu(int threads) {
  json out = {{"threads_used", threads}, {"logical", ::sysconf(_SC_NPROCESSORS_ONLN)}};
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  std::set<std::string> cores;
  std::string physical, flags;
  while (std::getline(in, line)) {
    size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string key = Trim(line.substr(0, colon)), value = Trim(line.substr(colon + 1));
    if (key == "model name") out["model"] = value;
    if (key == "vendor_id") out["vendor"] = value;
    if (key == "stepping") out["stepping"] = value;
    if (key == "microcode") out["microcode"] = value;
    if (key == "flags" || key == "Features") flags = value;
    if (key == "physical id") physical = value;
    if (key == "core id") cores.insert(physical + "." + value);
  }
  if (!cores.empty()) out["cores"] = cores.size();
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) out["allowed"] = CPU_COUNT(&set);
  // Sorted, so that kernels that list them otherwise give the same text.
  std::istringstream words(flags);
  std::set<std::string> sorted;
  for (std::string word; words >> word;) sorted.insert(word);
  out["flags"] = sorted;
  return out;
}

json ProbeMemory() {
  json out = json::object();
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  int64_t kib = 0;
  while (in >> key >> kib >> unit) {
    if (key == "MemTotal:") out["total_bytes"] = kib * 1024;
    if (key == "SwapTotal:") out["swap_bytes"] = kib * 1024;
    if (key == "SwapTotal:") break;
  }
  std::string group = FirstLineOf("/proc/self/cgroup");
  if (group.rfind("0::", 0) == 0) {
    std::string folder = "/sys/fs/cgroup" + group.substr(3);
    std::string memory = FirstLineOf(folder + "/memory.max"),
                cpu = FirstLineOf(folder + "/cpu.max");
    if (!memory.empty()) out["cgroup_memory"] = memory;
    if (!cpu.empty()) out["cgroup_cpu"] = cpu;
  }
  // cgroup v1, and the root of a container that shows no path.
  for (const char* file :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::string limit = FirstLineOf(file);
    if (!limit.empty() && !out.contains("cgroup_memory")) out["cgroup_memory"] = limit;
  }
  return out;
}

std::string CaptureEnvironment(const EnvironmentOptions& options, Redactor& redactor) {
  json out = {{"program", ProbeProgram()},        {"os", ProbeSystem()},
              {"cpu", ProbeCpu(options.threads)}, {"memory", ProbeMemory()},
              {"libraries", ProbeLibraries()},    {"variables", Variables(options, redactor)}};
  if (options.gpu) {
    json gpu = ProbeGpu();
    if (!gpu.empty()) out["gpu"] = gpu;
  }
  if (options.python) {
    json python = ProbePython(options.python_seconds);
    if (!python.empty()) out["python"] = python;
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace xp::snapshot
