// GPUs and the libraries that compute on them, as the environment records them.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "exp/base/cudnn_parts.h"
#include "exp/snapshot/nvml.h"
#include "src/snapshot/probe.h"

using nlohmann::json;

namespace xp::snapshot {
namespace {

template <class T>
void Put(json& out, const char* key, const std::optional<T>& value) {
  if (value) out[key] = *value;
}

// Asks a library that the dynamic linker finds for its version.
template <class F, class Ask>
std::string AskLibrary(std::initializer_list<const char*> files, const char* symbol, Ask ask) {
  for (const char* file : files) {
    void* library = ::dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (!library) continue;
    F function = reinterpret_cast<F>(::dlsym(library, symbol));
    const bool answers = function != nullptr && MissingCudnnPart(library).empty();
    std::string version = answers ? ask(function) : "";
    ::dlclose(library);
    if (!version.empty()) return version;
  }
  return "";
}

json Describe(const Nvml& nvml, int index) {
  Nvml::Static d = nvml.Describe(index);
  json out = {{"name", d.name},
              {"uuid", d.uuid},
              {"compute_capability", fmt::format("{}.{}", d.major, d.minor)}};
  Put(out, "memory_bytes", d.memory_bytes);
  Put(out, "persistence_mode", d.persistence);
  Put(out, "ecc", d.ecc);
  Put(out, "power_limit_mw", d.power_limit_mw);
  Put(out, "power_limit_default_mw", d.power_limit_default_mw);
  Put(out, "power_limit_max_mw", d.power_limit_max_mw);
  Put(out, "max_sm_mhz", d.max_sm_mhz);
  Put(out, "max_memory_mhz", d.max_memory_mhz);
  Put(out, "pcie_generation", d.pcie_generation);
  Put(out, "pcie_width", d.pcie_width);
  Put(out, "slowdown_celsius", d.slowdown_celsius);
  return out;
}

}  // namespace

json ProbeGpu() {
  std::shared_ptr<Nvml> nvml = Nvml::Load();
  if (!nvml) return json::object();
  json devices = json::array();
  for (int i = 0; i < nvml->count(); ++i) devices.push_back(Describe(*nvml, i));
  json out = {
      {"driver", nvml->driver()}, {"cuda_driver", nvml->cuda_driver()}, {"devices", devices}};
  using GetVersion = int (*)(int*);
  out["cuda_runtime"] = AskLibrary<GetVersion>(
      {"libcudart.so.13", "libcudart.so.12", "libcudart.so"}, "cudaRuntimeGetVersion",
      [](GetVersion f) {
        int v = 0;
        return f(&v) == 0 ? fmt::format("{}.{}", v / 1000, v % 1000 / 10) : std::string();
      });
  using GetSize = size_t (*)();
  out["cudnn"] = AskLibrary<GetSize>(
      {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"}, "cudnnGetVersion", [](GetSize f) {
        size_t v = f();  // 90100 is 9.1.0; before 9, 8902 was 8.9.2
        size_t unit = v >= 90000 ? 10000 : 1000;
        return fmt::format("{}.{}.{}", v / unit, v % unit / 100, v % 100);
      });
  out["nccl"] =
      AskLibrary<GetVersion>({"libnccl.so.2", "libnccl.so"}, "ncclGetVersion", [](GetVersion f) {
        int v = 0;
        return f(&v) == 0 ? fmt::format("{}.{}.{}", v / 10000, v % 10000 / 100, v % 100)
                          : std::string();
      });
  return out;
}

// One short child process, only when asked for (snapshot.python).
json ProbePython() {
  const char* command =
      "python3 -c 'import sys,json\n"
      "try:\n import importlib.metadata as m\n"
      " p=sorted({(d.metadata[\"Name\"] or \"?\")+\"==\"+d.version for d in m.distributions()})\n"
      "except Exception: p=[]\n"
      "print(json.dumps({\"version\":sys.version.split()[0],\"path\":sys.executable,"
      "\"packages\":p}))' 2>/dev/null";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command, "re"), ::pclose);
  if (!pipe) return json::object();
  std::string text;
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof(buffer), pipe.get())) > 0;)
    text.append(buffer, n);
  json parsed = json::parse(text, nullptr, false);
  return parsed.is_object() ? parsed : json::object();
}

}  // namespace xp::snapshot
