#include "src/train/device.h"

#include <cstdlib>

#include "exp/base/error.h"
#include "exp/graph/cpu.h"

namespace xp::train {
namespace {

using graph::DType;

// Whether `device` means a GPU, and which.
bool WantsCuda(const std::string& device, int* index) {
  *index = 0;
  if (device == "auto") return graph::CudaDeviceCount(nullptr) > 0;
  if (device == "cpu") return false;
  if (device == "cuda") return true;
  std::string number = device.starts_with("cuda:") ? device.substr(5) : "";
  bool digits = !number.empty() && number.size() < 4 &&
                number.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) {
    throw UsageError({.what = "`" + device + "` is no device",
                      .where = "--device",
                      .expected = "auto, cpu, cuda or cuda:N"});
  }
  *index = std::stoi(number);
  return true;
}

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

OpenedDevice OpenDevice(const DeviceRequest& r) {
  OpenedDevice opened;
  bool half = r.precision == "bf16" || r.precision == "fp16";
  int index = 0;
  if (!WantsCuda(r.device, &index)) {
    ChooseCpuPrecision(r.precision, &opened);
    // In fp32 convolutions are nine tenths of a step: not worth other bits.
    const bool passes = opened.compute != DType::kF32;
    opened.backend = graph::CreateCpuBackend({r.threads, passes, r.plans});
    return opened;
  }
  graph::CudaOptions cuda;
  cuda.device = index;
  cuda.tf32 = r.precision == "tf32";
  cuda.deterministic = r.deterministic;
  cuda.plan_cache = PlanCacheFolder();
  cuda.plans = r.plans;
  opened.backend = graph::CreateCudaBackend(cuda);
  opened.precision = r.precision;
  if (half) opened.compute = r.precision == "bf16" ? DType::kBF16 : DType::kF16;
  return opened;
}

}  // namespace xp::train
