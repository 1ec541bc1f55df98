// nvcc, with the C++ compiler and the driver.
#include <fmt/format.h>

#include "exp/base/leading_integer.h"
#include "exp/doctor/checks.h"
#include "src/doctor/cuda_releases.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

Findings CompilerPair(const Subject& s, const std::string& nvcc, const std::string& driver_cuda) {
  // The newest GCC that a toolkit takes as host compiler: "Installation Guide for Linux", table of
  // host compilers, which crt/host_config.h enforces.
  struct Limit {
    const char* cuda;
    int gcc;
  };
  static constexpr Limit kLimits[] = {{"13.0", 15}, {"12.8", 14}, {"12.4", 13}, {"12.0", 12},
                                      {"11.5", 11}, {"11.1", 10}, {"11.0", 9},  {"10.1", 8}};
  Finding f{.id = "nvcc", .group = "versions"};
  std::string gcc = Trimmed(s.system.Output({"g++", "-dumpfullversion"}));
  f.found = fmt::format("nvcc {}, g++ {}", nvcc, gcc.empty() ? "absent" : gcc);
  int newest = 0;
  for (const Limit& limit : kLimits) {
    if (CompareVersions(nvcc, limit.cuda) < 0) continue;
    newest = limit.gcc;
    break;
  }
  if (newest > 0) f.needed = fmt::format("g++ {} or older for CUDA {}", newest, nvcc);
  if (newest > 0 && !gcc.empty() && LeadingInteger(gcc).value_or(0) > newest) {
    f.level = Level::kWarning;
    f.why = "nvcc refuses host compilers that it doesn't know, so the CUDA backend can't be built";
    f.fix = fmt::format("install g++-{} and build with -DCMAKE_CUDA_HOST_COMPILER=g++-{}", newest,
                        newest);
  }
  Findings out{f};
  if (NewerMajor(nvcc, driver_cuda)) {
    out.push_back({.id = "nvcc.driver",
                   .group = "versions",
                   .level = Level::kWarning,
                   .found = fmt::format("nvcc {}, the driver runs CUDA {}", nvcc, driver_cuda),
                   .needed = "a toolkit of the driver's major version or older",
                   .why = "what is built with it won't start with this driver",
                   .fix = "update the driver to " + DriverFor(nvcc).full +
                          ", or build with an "
                          "older toolkit"});
  }
  return out;
}

}  // namespace

Findings CheckCompilers(const Subject& s) {
  std::string text;
  for (const char* program : {"nvcc", "/usr/local/cuda/bin/nvcc", "/opt/cuda/bin/nvcc"}) {
    text = s.system.Output({program, "--version"});
    if (!text.empty()) break;
  }
  std::string nvcc = VersionAfter(text, "release ");
  std::string full = VersionAfter(text, ", V");
  if (nvcc.empty()) {
    return {{.id = "nvcc",
             .group = "versions",
             .level = Level::kAbsent,
             .found = s.system.IsHere() ? "nvcc isn't found" : s.system.QueryGpus().why,
             .needed = "only to build the CUDA backend"}};
  }
  return CompilerPair(s, full.empty() ? nvcc : full, s.system.QueryGpus().cuda_driver);
}

}  // namespace xp::doctor
