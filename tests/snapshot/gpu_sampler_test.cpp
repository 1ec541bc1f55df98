#include "exp/snapshot/gpu_sampler.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "catch.h"
#include "exp/base/temporary_folder.h"

using namespace xp::snapshot;

TEST_CASE("GPU telemetry: a series, statistics by epoch, and warnings once each") {
  ::setenv("EXP_NVML", FAKE_NVML, 1);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  std::mutex mutex;
  std::vector<std::string> warnings;
  int64_t samples = 0;
  {
    GpuSampler sampler({.interval_seconds = 0.005,
                        .on_value =
                            [&](const std::string& name, int64_t, double value) {
                              std::lock_guard lock(mutex);
                              if (name == "gpu/0/celsius" && value == 88) ++samples;
                            },
                        .on_warning =
                            [&](const std::string& code, const std::string&) {
                              std::lock_guard lock(mutex);
                              warnings.push_back(code);
                            }});
    for (int i = 0; i < 1000; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::lock_guard lock(mutex);
      if (samples >= 5) break;
    }
    CHECK(sampler.Celsius() == 88.0);
    std::map<std::string, double> statistics;
    for (const auto& [name, value] : sampler.TakeStatistics()) statistics[name] = value;
    CHECK(statistics.at("0.watts.mean") == 499);
    CHECK(statistics.at("0.sm_mhz.max") == 1200);
    CHECK(statistics.at("0.celsius.min") == 88);
  }
  CHECK(samples >= 5);
  std::sort(warnings.begin(), warnings.end());
  CHECK(warnings == std::vector<std::string>{"gpu.hot", "gpu.power_cap", "gpu.power_limit",
                                             "gpu.thermal_throttle"});
  ::setenv("CUDA_VISIBLE_DEVICES", "3", 1);
  GpuSampler hidden({.interval_seconds = 0.005});
  CHECK(hidden.TakeStatistics().empty());
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ::unsetenv("EXP_NVML");
}

TEST_CASE(
    "a card that is lost while it is watched is told of once, and nothing is told in its name") {
  const xp::TemporaryFolder folder("nvml");
  const std::string lost = folder.path() + "/lost";
  ::setenv("EXP_NVML", FAKE_NVML, 1);
  ::setenv("FAKE_NVML_LOST", lost.c_str(), 1);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  std::mutex mutex;
  std::map<std::string, std::string> warnings;
  int lost_warnings = 0, values = 0;
  {
    GpuSampler sampler({.interval_seconds = 0.005,
                        .on_value =
                            [&](const std::string&, int64_t, double) {
                              std::lock_guard lock(mutex);
                              ++values;
                            },
                        .on_warning =
                            [&](const std::string& code, const std::string& message) {
                              std::lock_guard lock(mutex);
                              warnings[code] = message;
                              lost_warnings += code == "gpu.lost" ? 1 : 0;
                            }});
    auto await = [&](auto condition) {
      for (int i = 0; i < 2000; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        std::lock_guard lock(mutex);
        if (condition()) return true;
      }
      return false;
    };
    REQUIRE(await([&] { return values > 20; }));
    CHECK(sampler.Celsius() == 88.0);
    std::ofstream(lost).put('x');
    REQUIRE(await([&] { return lost_warnings > 0; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK_FALSE(sampler.Celsius());
    const int before = [&] {
      std::lock_guard lock(mutex);
      return values;
    }();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::lock_guard lock(mutex);
    CHECK(values == before);
  }
  CHECK(lost_warnings == 1);
  CHECK(warnings["gpu.lost"].find(
            "GPU 0 (Fake H200): nothing is told of it any more: GPU is lost") == 0);
  for (const char* name : {"FAKE_NVML_LOST", "EXP_NVML"}) ::unsetenv(name);
}

TEST_CASE("the temperature shown is that of the device that trains") {
  ::setenv("EXP_NVML", FAKE_NVML, 1);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  auto shown = [](GpuSamplerOptions options) {
    options.interval_seconds = 0.005;
    const GpuSampler sampler(std::move(options));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return sampler.Celsius().value_or(0);
  };
  CHECK(shown({}) == 88);
  CHECK(shown({.cuda = 0}) == 88);
  ::setenv("FAKE_NVML_HEAT", "40", 1);  // and the card's number
  ::setenv("FAKE_NVML_GPUS", "3", 1);
  CHECK(shown({}) == 40);
  CHECK(shown({.cuda = 1}) == 41);
  CHECK(shown({.cuda = 0, .pci_bus_id = "0000:10:00.0"}) == 42);
  for (const char* name : {"FAKE_NVML_GPUS", "FAKE_NVML_HEAT", "EXP_NVML"}) ::unsetenv(name);
}
