#include "src/train/device.h"

#include <cstdlib>

#include "exp/base/error.h"
#include "exp/graph/cpu.h"

namespace xp::train {
namespace {

using graph::DType;

// Beside other programs' caches; empty when there is no home.
std::string PlanCacheFolder() {
  for (const char* name : {"XDG_CACHE_HOME", "HOME"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0) continue;
    return std::string(value) + (name[0] == 'X' ? "/exp/plans" : "/.cache/exp/plans");
  }
  return "";
}

// The CPU computes in fp32 and, where the processor can, in bf16.
void ChooseCpuPrecision(const std::string& asked, OpenedDevice* opened) {
  using graph::CpuBf16;
  const CpuBf16 bf16 = graph::CpuBf16Support();
  if (asked == "bf16" && bf16 != CpuBf16::kNone) {
    opened->compute = DType::kBF16;
    opened->precision = asked;
    if (bf16 == CpuBf16::kEmulated) {
      opened->precision_note =
          "precision bf16 is emulated on this processor, which has no AVX512_BF16: slower than "
          "fp32";
    }
    return;
  }
  if (asked == "fp32") return;
  opened->precision_note =
      "precision " + asked + ": fp32 is computed instead, because " +
      (asked == "bf16" ? "bf16 on a CPU needs AVX-512, which this processor doesn't have or "
                         "ONEDNN_MAX_CPU_ISA takes away"
                       : "the CPU backend has no " + asked + ", only fp32 and bf16");
}

}  // namespace

bool IsDeviceName(const std::string& device) {
  if (device == "auto" || device == "cpu" || device == "cuda") return true;
  std::string number = device.starts_with("cuda:") ? device.substr(5) : "";
  return !number.empty() && number.size() < 4 &&
         number.find_first_not_of("0123456789") == std::string::npos;
}

int CudaNumber(const std::string& device) {
  if (!IsDeviceName(device)) {
    throw UsageError({.what = "`" + device + "` is no device",
                      .where = "--device",
                      .expected = "auto, cpu, cuda or cuda:N"});
  }
  if (device == "auto") return graph::CudaDeviceCount(nullptr) > 0 ? 0 : -1;
  if (device == "cpu") return -1;
  return device == "cuda" ? 0 : std::stoi(device.substr(5));
}

OpenedDevice PrecisionOn(const std::string& device, const std::string& precision) {
  OpenedDevice opened;
  if (CudaNumber(device) < 0) {
    ChooseCpuPrecision(precision, &opened);
  } else {
    opened.precision = precision;
    if (precision == "bf16") opened.compute = DType::kBF16;
    if (precision == "fp16") opened.compute = DType::kF16;
  }
  return opened;
}

OpenedDevice OpenDevice(const DeviceRequest& r) {
  OpenedDevice opened = PrecisionOn(r.device, r.precision);
  const int number = CudaNumber(r.device);
  if (number < 0) {
    // In fp32 convolutions are nine tenths of a step: not worth other bits.
    const bool passes = opened.compute != DType::kF32;
    opened.backend = graph::CreateCpuBackend({r.threads, passes, r.plans});
    return opened;
  }
  graph::CudaOptions cuda;
  cuda.device = number;
  cuda.tf32 = r.precision == "tf32";
  cuda.deterministic = r.deterministic;
  cuda.plan_cache = PlanCacheFolder();
  cuda.plans = r.plans;
  opened.backend = graph::CreateCudaBackend(cuda);
  return opened;
}

}  // namespace xp::train
