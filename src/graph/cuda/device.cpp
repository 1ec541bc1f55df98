#include "src/graph/cuda/device.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "exp/base/error.h"
#include "exp/base/library_version.h"
#include "exp/graph/backend.h"
#include "kernels/content_hash.h"
#include "src/graph/cuda/check.h"

namespace xp::graph {
namespace cuda {
namespace {

// Why the runtime sees no device, as a sentence without a full stop; empty when it sees one.
std::string WhyNoDevice(int* count) {
  // CUDA's own order is by speed: number 0 of `nvidia-smi` (NVML), whose watts and heat are shown
  // and recorded, would be another card where they are of several kinds. A user's setting stays.
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
  *count = 0;
  int driver = 0;
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    cudaGetLastError();
    return fmt::format("no NVIDIA driver is loaded (this program needs one for CUDA {} or newer)",
                       CudaVersionText(runtime));
  }
  cudaError_t error = cudaGetDeviceCount(count);
  cudaGetLastError();
  if (error == cudaSuccess && *count > 0) return "";
  *count = 0;
  switch (error) {
    case cudaErrorInsufficientDriver:
      return fmt::format("the NVIDIA driver {} is for CUDA {}, too old for this program's CUDA {}",
                         DriverVersion(), CudaVersionText(driver), CudaVersionText(runtime));
    case cudaSuccess:
    case cudaErrorNoDevice:
      return "the NVIDIA driver shows no device (is CUDA_VISIBLE_DEVICES empty?)";
    case cudaErrorSystemDriverMismatch:
      return "the NVIDIA kernel module and the driver's library have different versions (a reboot "
             "after a driver update is due)";
    default:
      return fmt::format("the NVIDIA driver {} reports: {} ({})", DriverVersion(),
                         cudaGetErrorString(error), cudaGetErrorName(error));
  }
}

int Attribute(cudaDeviceAttr attribute, int ordinal) {
  int value = 0;
  Check(cudaDeviceGetAttribute(&value, attribute, ordinal), "asking for the device's properties");
  return value;
}

}  // namespace

std::string DriverVersion() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  if (file >> version && !version.empty()) return version;
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  ..."
  std::ifstream proc("/proc/driver/nvidia/version");
  std::string word;
  while (proc >> word) {
    if (word.find_first_not_of("0123456789.") == std::string::npos &&
        word.find('.') != std::string::npos) {
      return word;
    }
  }
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  return "CUDA " + CudaVersionText(driver);
}

Device OpenDevice(int ordinal) {
  int count = 0;
  if (std::string why = WhyNoDevice(&count); !why.empty()) {
    throw UsageError({.what = "no GPU can be used: " + why,
                      .where = "--device cuda",
                      .next = "install or update the NVIDIA driver, or pass --device cpu"});
  }
  if (ordinal < 0 || ordinal >= count) {
    throw UsageError({.what = fmt::format("there is no GPU number {}", ordinal),
                      .where = "--device",
                      .expected = fmt::format("a number from 0 to {}", count - 1),
                      .next = "`nvidia-smi -L` lists them; CUDA_VISIBLE_DEVICES may hide some"});
  }
  Check(cudaSetDevice(ordinal), "choosing the device");
  cudaDeviceProp properties{};
  Check(cudaGetDeviceProperties(&properties, ordinal), "asking for the device's properties");
  Device device;
  device.ordinal = ordinal;
  device.name = properties.name;
  device.major = properties.major;
  device.minor = properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  device.shared_memory_optin =
      static_cast<size_t>(Attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal));
  device.l2_bytes = static_cast<size_t>(properties.l2CacheSize);
  if (!kernels::HaveMachineCode()) {
    throw UsageError({.what = fmt::format("this program holds no code for {} (compute capability "
                                          "{}.{})",
                                          device.name, device.major, device.minor),
                      .where = "--device cuda",
                      .next = fmt::format("build it with -DEXP_CUDA_ARCHITECTURES={}{}",
                                          device.major, device.minor)});
  }
  return device;
}

}  // namespace cuda

bool CudaCompiledIn() { return true; }

int CudaDeviceCount(std::string* reason) {
  int count = 0;
  std::string why = cuda::WhyNoDevice(&count);
  if (reason != nullptr) *reason = why;
  return count;
}

std::string CudaPciBusId(int device) {
  if (device < 0 || device >= CudaDeviceCount(nullptr)) return "";
  char text[32] = "";
  const bool told = cudaDeviceGetPCIBusId(text, sizeof(text), device) == cudaSuccess;
  if (!told) cudaGetLastError();
  return told ? text : "";
}

}  // namespace xp::graph
