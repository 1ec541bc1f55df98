// Watches the GPUs in the background: temperature, power, clocks, utilisation, memory, throttling.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace xp::snapshot {

struct GpuSamplerOptions {
  double interval_seconds = 1;  // <= 0: nothing is sampled
  // CUDA's number and place of the GPU that Celsius() is of; where neither is told, of the first.
  int cuda = -1;
  std::string pci_bus_id;
  // Called from the sampler's thread. `n` counts the samples.
  // Names: "gpu/0/celsius", "gpu/0/watts", "gpu/0/sm_mhz", "gpu/0/memory_mhz", "gpu/0/percent",
  // "gpu/0/memory_percent", "gpu/0/memory_gib", "gpu/0/throttle" (NVML's reason bits).
  std::function<void(const std::string& name, int64_t n, double value)> on_value;
  // A throttle reason, a power limit below the card's own, heat near the slowdown threshold, or
  // that nothing is told of the card any more; each once.
  std::function<void(const std::string& code, const std::string& message)> on_warning;
};

// GPUs that CUDA_VISIBLE_DEVICES hides are not watched. Does nothing where there is no NVIDIA
// driver.
class GpuSampler {
 public:
  explicit GpuSampler(GpuSamplerOptions options);
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  // "0.celsius.min", "0.celsius.mean", "0.celsius.max", ... since the last call.
  std::vector<std::pair<std::string, double>> TakeStatistics();
  // As last sampled.
  std::optional<double> Celsius() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace xp::snapshot
