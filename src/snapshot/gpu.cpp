// GPUs and the libraries that compute on them, as the environment records them.
#include <fmt/format.h>

#include <memory>

#include "exp/base/library_version.h"
#include "exp/snapshot/nvml.h"
#include "src/snapshot/probe.h"

using nlohmann::json;

namespace xp::snapshot {
namespace {

template <class T>
void Put(json& out, const char* key, const std::optional<T>& value) {
  if (value) out[key] = *value;
}

// Of the first library that the dynamic linker finds and that answers; empty where none does.
std::string VersionOf(std::initializer_list<const char*> files, const char* function,
                      LibraryCall call, std::string (*text)(int64_t)) {
  for (const char* file : files) {
    if (auto number = AskLibrary(file, function, call)) return text(*number);
  }
  return "";
}

json Describe(const Nvml& nvml, int index) {
  Nvml::Static d = nvml.Describe(index);
  json out = {{"name", d.name}, {"uuid", d.uuid}};
  if (!d.problem.empty()) out["problem"] = d.problem;
  if (d.major > 0) out["compute_capability"] = fmt::format("{}.{}", d.major, d.minor);
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
  const std::shared_ptr<Nvml> nvml = Nvml::Shared()->nvml;
  if (!nvml) return json::object();
  json devices = json::array();
  for (int i = 0; i < nvml->count(); ++i) devices.push_back(Describe(*nvml, i));
  json out = {
      {"driver", nvml->driver()}, {"cuda_driver", nvml->cuda_driver()}, {"devices", devices}};
  out["cuda_runtime"] = VersionOf({"libcudart.so.13", "libcudart.so.12", "libcudart.so"},
                                  "cudaRuntimeGetVersion", LibraryCall::kInt, CudaVersionText);
  out["cudnn"] = VersionOf({"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"}, "cudnnGetVersion",
                           LibraryCall::kSize, CudnnVersionText);
  out["nccl"] = VersionOf({"libnccl.so.2", "libnccl.so"}, "ncclGetVersion", LibraryCall::kInt,
                          NcclVersionText);
  return out;
}

}  // namespace xp::snapshot
