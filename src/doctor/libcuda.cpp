// The library through which everything computes on the GPU: the driver's part on the user's side.
#include <fmt/format.h>

#include "exp/base/leading_integer.h"
#include "exp/doctor/checks.h"
#include "src/doctor/find_library.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

constexpr const char* kLibcuda = "libcuda.so.1";

// "580.65.06" of libcuda.so.580.65.06, as drivers name it; empty for other names: those of WSL and
// of Jetson boards are called libcuda.so.1.1 whatever they are.
std::string VersionOf(const std::string& real) {
  constexpr std::string_view kName = "/libcuda.so.";
  size_t at = real.rfind(kName);
  std::string version = at == std::string::npos ? "" : real.substr(at + kName.size());
  bool number = version.find_first_not_of("0123456789.") == std::string::npos;
  constexpr int kOldestMajor = 100;  // far below any driver that runs CUDA
  return number && version.find('.') != std::string::npos &&
                 LeadingInteger(version).value_or(0) >= kOldestMajor
             ? version
             : "";
}

bool AnyGeForce(const Gpus& gpus) {
  for (const GpuState& gpu : gpus.devices) {
    if (gpu.about.name.find("GeForce") != std::string::npos) return true;
  }
  return false;
}

void DoesNotStart(const std::string& path, Finding& f) {
  f.level = Level::kError;
  f.why = "CUDA doesn't start";
  bool stub = path.find("/stubs/") != std::string::npos;
  f.found = path.empty() ? "libcuda.so.1 isn't found"
            : stub       ? path + " is the stub, which is only for linking"
                         : path + " doesn't load, or doesn't answer";
  f.fix = stub ? "take the folder `stubs` out of LD_LIBRARY_PATH and /etc/ld.so.conf"
               : "in a container: start it with --gpus all and NVIDIA_DRIVER_CAPABILITIES="
                 "compute,utility; else install the driver's compute libraries (libcuda1)";
}

}  // namespace

Findings CheckLibcuda(const Subject& s) {
  Gpus gpus = s.system.QueryGpus();
  if (!s.build.compiled_in || gpus.devices.empty()) return {};
  Finding f{.id = "driver.libcuda", .group = "versions"};
  std::string path = FindOwnLibrary(s.system, kLibcuda);
  std::string real = path.empty() ? "" : s.system.RealPath(path);
  std::string version = VersionOf(real), kernel = KernelDriver(s.system);
  if (kernel.empty()) kernel = gpus.driver;
  f.needed = "the driver's own libcuda.so.1, of version " + kernel;
  auto cuda = s.system.Ask(kLibcuda, "cuDriverGetVersion", LibraryCall::kInt);
  // Where the real one lies beside the stub's folder, the path tells which of both was taken.
  if (!cuda || real.find("/stubs/") != std::string::npos) {
    DoesNotStart(real.find("/stubs/") != std::string::npos ? real : path, f);
    return {f};
  }
  f.found = fmt::format("CUDA {}{}", CudaVersionText(*cuda), path.empty() ? "" : " (" + path + ")");
  int order = version.empty() || kernel.empty() ? 0 : CompareVersions(version, kernel);
  if (order == 0) return {f};
  f.found += fmt::format(", version {}, over the kernel module {}", version, kernel);
  if (order > 0 && !AnyGeForce(gpus)) {
    f.found += ": forward compatibility";
    return {f};
  }
  f.level = Level::kError;
  f.why = order < 0 ? "a library older than the kernel module refuses to start"
                    : "forward compatibility (cuda-compat) is for data-centre cards: a GeForce "
                      "refuses it";
  f.fix = fmt::format(
      "take {} out of LD_LIBRARY_PATH and /etc/ld.so.conf, so that the driver's own "
      "is found{}",
      path.substr(0, path.rfind('/')), order > 0 ? ", or update the driver" : "");
  return {f};
}

}  // namespace xp::doctor
