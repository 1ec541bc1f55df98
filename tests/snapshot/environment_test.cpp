#include "exp/snapshot/environment.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "catch.h"
#include "exp/snapshot/gpu_sampler.h"
#include "exp/snapshot/nvml.h"
#include "exp/snapshot/redact.h"

using namespace xp::snapshot;
using nlohmann::json;

TEST_CASE("the environment says what runs where, twice the same, without secrets") {
  ::setenv("MY_API_KEY", "k3yK3yK3yK3y", 1);
  ::setenv("OMP_NUM_THREADS", "3", 1);
  Redactor redactor;
  redactor.LearnEnvironment();
  EnvironmentOptions options{.threads = 2, .variables = {"MY_API_KEY"}};
  std::string text = CaptureEnvironment(options, redactor);
  CHECK(text == CaptureEnvironment(options, redactor));
  CHECK(text.find("k3yK3yK3yK3y") == std::string::npos);
  json e = json::parse(text);
  CHECK(e["cpu"]["threads_used"] == 2);
  CHECK(e["cpu"]["flags"].size() > 3);
  CHECK(e["variables"]["OMP_NUM_THREADS"] == "3");
  CHECK(e["variables"]["MY_API_KEY"] == "[redacted:environment-secret]");
  CHECK_FALSE(e["os"]["glibc"].get<std::string>().empty());
  CHECK_FALSE(e["program"]["compiler"].get<std::string>().empty());
  CHECK(e["libraries"]["libc"]["build_id"].get<std::string>().size() == 40);
  CHECK(e["memory"]["total_bytes"].get<int64_t>() > 0);
}

TEST_CASE("a GPU is described through NVML, and its absence is no error") {
  ::setenv("EXP_NVML", "/nonexistent/lib.so", 1);
  CHECK(Nvml::Load() == nullptr);
  ::setenv("EXP_NVML", FAKE_NVML, 1);
  Redactor redactor;
  json gpu = json::parse(CaptureEnvironment({.threads = 1}, redactor))["gpu"];
  CHECK(Nvml::Load()->Describe(0).problem.empty());
  CHECK(Nvml::Load()->Describe(1).problem == "GPU is lost");
  CHECK(gpu["driver"] == "550.54.15");
  CHECK(gpu["cuda_driver"] == "12.4");
  const json& d = gpu["devices"][0];
  CHECK(d["name"] == "Fake H200");
  CHECK(d["compute_capability"] == "9.0");
  CHECK(d["memory_bytes"] == 150000000000);
  CHECK(d["persistence_mode"] == true);
  CHECK(d["power_limit_mw"] == 500000);
  CHECK(d["power_limit_max_mw"] == 700000);
  CHECK(d["pcie_generation"] == 5);
  ::unsetenv("EXP_NVML");
}

TEST_CASE("what NVML doesn't tell is absent, and no number of GPUs is believed") {
  ::setenv("EXP_NVML", FAKE_NVML, 1);
  ::setenv("FAKE_NVML_GPUS", "4294967295", 1);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  std::shared_ptr<Nvml> nvml = Nvml::Load();
  REQUIRE(nvml);
  CHECK(nvml->count() <= 1024);
  CHECK(nvml->cuda_driver().empty());
  CHECK_FALSE(nvml->Take(0).celsius);
  CHECK_FALSE(nvml->Describe(0).slowdown_celsius);
  CHECK(nvml->Describe(0).max_sm_mhz == 1980);
  CHECK(nvml->Describe(0).problem.empty());
  ::setenv("FAKE_NVML_GPUS", "3", 1);
  nvml = Nvml::Load();
  REQUIRE(nvml);
  CHECK(VisibleGpus(*nvml) == std::vector<int>{0, 1, 2});
  // CUDA C++ Programming Guide, "CUDA Environment Variables": those before the first invalid one.
  const std::pair<const char*, std::vector<int>> lists[] = {{"2,0", {2, 0}},
                                                            {"1,-1,0", {1}},
                                                            {"-1", {}},
                                                            {"", {}},
                                                            {"7", {}},
                                                            {"0,nonsense,1", {0}},
                                                            {" 2, 0", {2, 0}},
                                                            {"MIG-41b36413", {1}},
                                                            {"MIG-nobody", {}},
                                                            {"0,,1", {0}},
                                                            {" ", {}},
                                                            {"GPU-fa", {0}},
                                                            {"GPU-2000,GPU-1,0", {2, 1, 0}},
                                                            {"MIG-GPU-2000/2/0", {2}},
                                                            {"MIG-GPU-fake/1/0", {0}},
                                                            {"MIG-GPU-other/1/0", {}}};
  for (const auto& [list, visible] : lists) {
    ::setenv("CUDA_VISIBLE_DEVICES", list, 1);
    INFO(list);
    CHECK(VisibleGpus(*nvml) == visible);
  }
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "FAKE_NVML_GPUS", "EXP_NVML"}) ::unsetenv(name);
}

TEST_CASE("where a card is split CUDA sees its first instance and nothing else") {
  ::setenv("EXP_NVML", FAKE_NVML, 1);
  ::setenv("FAKE_NVML_GPUS", "3", 1);
  ::setenv("FAKE_NVML_MIG", "1", 1);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const std::shared_ptr<Nvml> nvml = Nvml::Load();
  REQUIRE(nvml);
  CHECK(nvml->Describe(1).mig_instances == 1);
  CHECK(nvml->Describe(0).mig_instances == 0);
  CHECK(VisibleGpus(*nvml) == std::vector<int>{1});
  const std::pair<const char*, std::vector<int>> lists[] = {{"2,0", {2, 0}},
                                                            {"2,1", {1}},
                                                            {"0,MIG-41b36413", {1}},
                                                            {"GPU-1000", {1}},
                                                            {"0,nonsense,1", {0}}};
  for (const auto& [list, visible] : lists) {
    ::setenv("CUDA_VISIBLE_DEVICES", list, 1);
    INFO(list);
    CHECK(VisibleGpus(*nvml) == visible);
  }
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "FAKE_NVML_MIG", "FAKE_NVML_GPUS", "EXP_NVML"})
    ::unsetenv(name);
}

TEST_CASE("an NVML that ends or hangs whoever asks it doesn't end or hang this program") {
  ::setenv("EXP_NVML", FAKE_NVML, 1);
  ::setenv("FAKE_NVML_GPUS", "3", 1);
  const auto start = std::chrono::steady_clock::now();
  auto fault = [](const char* name) {
    ::setenv("FAKE_NVML_FAULT", name, 1);
    std::string why;
    std::shared_ptr<Nvml> nvml = Nvml::Load(&why);
    CHECK((nvml == nullptr) == !why.empty());
    if (!nvml) CHECK(why == "NVML ends the process that asks it");
    return nvml;
  };
  CHECK(fault("load") == nullptr);
  std::shared_ptr<Nvml> nvml = fault("1 ends");
  REQUIRE(nvml);
  CHECK(nvml->Describe(0).name == "Fake H200");
  CHECK(nvml->Describe(1).problem == "NVML ends the process that asks it");
  CHECK(nvml->Describe(2).name == "Fake A40");  // by another child
  CHECK(nvml->Take(2).power_mw == 499000);
  CHECK(nvml->driver() == "550.54.15");
  nvml = fault("1 hangs");
  REQUIRE(nvml);
  CHECK(nvml->Describe(1).problem == "NVML doesn't answer: it hangs the process that asks it");
  CHECK(nvml->Describe(2).problem.empty());
  for (const char* name : {"FAKE_NVML_FAULT", "FAKE_NVML_GPUS", "EXP_NVML"}) ::unsetenv(name);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

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
