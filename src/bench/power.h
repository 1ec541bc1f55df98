// Watches power, temperature and clocks of a device while something is measured; private to
// src/bench.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "exp/snapshot/nvml.h"

namespace xp::bench {

struct PowerSeen {
  double watts = 0, celsius = 0, sm_mhz = 0;  // means; of celsius the highest; 0: not told
  std::vector<std::string> throttled;         // "power cap 80 %"
};

// From NVML ten times a second for a GPU; from RAPL's energy counters (powercap) for the CPU, where
// this user may read them.
class PowerMeter {
 public:
  // cuda: as of train::CudaNumber, -1 for the CPU.
  explicit PowerMeter(int cuda);
  ~PowerMeter();
  PowerMeter(const PowerMeter&) = delete;
  PowerMeter& operator=(const PowerMeter&) = delete;
  PowerSeen Stop();

 private:
  std::shared_ptr<snapshot::Nvml> nvml_;
  int index_ = 0;
  std::vector<snapshot::Nvml::Sample> samples_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  double joules_ = -1, start_ = 0;
};

// Samples as they are summarised: for tests.
PowerSeen Summarise(const std::vector<snapshot::Nvml::Sample>& samples);

}  // namespace xp::bench
