#include "exp/snapshot/nvml.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "exp/base/temporary_folder.h"
#include "exp/snapshot/environment.h"
#include "exp/snapshot/gpu_sampler.h"
#include "exp/snapshot/redact.h"

using namespace xp::snapshot;
using nlohmann::json;

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

TEST_CASE("a card that can't be asked isn't asked again, and the others are told of") {
  ::setenv("EXP_NVML", FAKE_NVML, 1);
  ::setenv("FAKE_NVML_GPUS", "16", 1);
  for (const char* fault : {"1 ends", "1 hangs"}) {
    ::setenv("FAKE_NVML_FAULT", fault, 1);
    const auto start = std::chrono::steady_clock::now();
    const std::shared_ptr<Nvml> nvml = Nvml::Load();
    REQUIRE(nvml);
    for (int round = 0; round < 3; ++round) {
      for (int card = 0; card < 16; ++card) {
        INFO(fault << " " << card);
        CHECK(nvml->Describe(card).problem.empty() == (card != 1));
        CHECK(nvml->Errors(card).corrected.has_value() == (card != 1 || round == 0));
        CHECK(nvml->Take(card).power_mw.has_value() == (card != 1 || round == 0));
      }
    }
    CHECK_FALSE(nvml->Take(1).problem.empty());
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(25));
  }
  for (const char* name : {"FAKE_NVML_FAULT", "FAKE_NVML_GPUS", "EXP_NVML"}) ::unsetenv(name);
}

TEST_CASE("NVML is started once where several ask it in turn") {
  const xp::TemporaryFolder folder("nvml");
  const std::string loads = folder.path() + "/loads";
  ::setenv("EXP_NVML", FAKE_NVML, 1);
  ::setenv("FAKE_NVML_LOADS", loads.c_str(), 1);
  {
    const auto held = Nvml::Shared();
    REQUIRE(held->nvml);
    Redactor redactor;
    CaptureEnvironment({.threads = 1}, redactor);
    const GpuSampler sampler({.interval_seconds = 1});
    CHECK(Nvml::Shared() == held);
  }
  CHECK(std::filesystem::file_size(loads) == 1);
  ::setenv("FAKE_NVML_FAULT", "load", 1);
  {
    const auto held = Nvml::Shared();  // another one
    CHECK_FALSE(held->nvml);
    CHECK_FALSE(held->why.empty());
    CHECK(Nvml::Shared() == held);
  }
  CHECK(std::filesystem::file_size(loads) == 2);
  for (const char* name : {"FAKE_NVML_FAULT", "FAKE_NVML_LOADS", "EXP_NVML"}) ::unsetenv(name);
}

TEST_CASE("a card is found by its place where CUDA numbers them otherwise") {
  ::setenv("EXP_NVML", FAKE_NVML, 1);
  ::setenv("FAKE_NVML_GPUS", "3", 1);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const std::shared_ptr<Nvml> nvml = Nvml::Load();
  REQUIRE(nvml);
  CHECK(nvml->CardAt("0000:10:00.0") == 2);
  CHECK_FALSE(nvml->CardAt("0000:13:00.0"));
  CHECK(CardOfCuda(*nvml, 0, "0000:10:00.0") == 2);
  CHECK(CardOfCuda(*nvml, 2, "0000:12:00.0") == 0);
  // Where CUDA or NVML tells no place: by the order of the visible ones.
  CHECK(CardOfCuda(*nvml, 0, "") == 0);
  CHECK(CardOfCuda(*nvml, 2, "0000:99:00.0") == 2);
  CHECK_FALSE(CardOfCuda(*nvml, 3, ""));
  CHECK_FALSE(CardOfCuda(*nvml, -1, ""));
  ::setenv("CUDA_VISIBLE_DEVICES", "1,2", 1);
  CHECK(CardOfCuda(*nvml, 0, "") == 1);
  CHECK(CardOfCuda(*nvml, 0, "0000:10:00.0") == 2);
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "FAKE_NVML_GPUS", "EXP_NVML"}) ::unsetenv(name);
}
