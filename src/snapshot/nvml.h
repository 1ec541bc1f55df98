// NVIDIA's management library, loaded when the program runs so that it also runs without a driver.
// Private to src/snapshot. Source of the interface: the NVML API reference
// (docs.nvidia.com/deploy/nvml-api).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace xp::snapshot {

class Nvml {
 public:
  // nullptr where there is no driver. The file is libnvidia-ml.so.1, or EXP_NVML names another one.
  static std::shared_ptr<Nvml> Load();
  ~Nvml();

  struct Static {
    std::string name, uuid;
    int major = 0, minor = 0;  // compute capability
    std::optional<int64_t> memory_bytes;
    std::optional<bool> persistence, ecc;
    std::optional<int> power_limit_mw, power_limit_max_mw, max_sm_mhz, max_memory_mhz;
    std::optional<int> pcie_generation, pcie_width, slowdown_celsius;
  };
  struct Sample {
    std::optional<int> celsius, power_mw, sm_mhz, memory_mhz, gpu_percent, memory_percent;
    std::optional<int64_t> memory_used;
    uint64_t throttle = 0;  // nvmlClocksThrottleReason* bits
  };

  std::string driver() const;
  std::string cuda_driver() const;  // "12.4"
  int count() const;
  Static Describe(int device) const;
  Sample Take(int device) const;

 private:
  Nvml() = default;
  struct Api;
  std::unique_ptr<Api> api_;
};

}  // namespace xp::snapshot
