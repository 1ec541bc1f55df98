// NCCL, which several GPUs need.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "exp/doctor/checks.h"
#include "src/doctor/cuda_releases.h"
#include "src/doctor/find_library.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

constexpr const char* kNccl = "libnccl.so.2";

// "13.3" of the text "NCCL version 2.30.7+cuda13.3", which the library holds as a constant; empty
// where it doesn't.
std::string CudaOfNccl(const System& system) {
  constexpr std::string_view kName = "NCCL version ", kCuda = "+cuda";
  constexpr size_t kConstants = size_t{64} << 20;  // they lie before hundreds of MiB of GPU code
  std::string path = FindOwnLibrary(system, kNccl);
  auto bytes = path.empty() ? std::nullopt : system.Bytes(path);
  if (!bytes) return "";
  std::string_view text(bytes->bytes.data(), std::min(bytes->bytes.size(), kConstants));
  for (size_t at = 0; (at = text.find(kName, at)) != text.npos; ++at) {
    size_t end = text.find_first_not_of("0123456789.", at + kName.size());
    if (end == text.npos || !text.substr(end).starts_with(kCuda)) continue;
    return VersionAfter(std::string(text.substr(end, kCuda.size() + 16)), std::string(kCuda));
  }
  return "";
}

}  // namespace

Findings CheckNccl(const Subject& s) {
  Gpus gpus = s.system.QueryGpus();
  auto version = s.system.Ask(kNccl, "ncclGetVersion", LibraryCall::kInt);
  Finding f{.id = "nccl", .group = "versions", .level = Level::kAbsent};
  f.needed = "NCCL 2, to train on several GPUs";
  f.found = "libnccl.so.2 isn't found";
  if (version) {
    f.level = Level::kOk;
    f.found = NcclVersionText(*version);
    const std::string cuda = CudaOfNccl(s.system);
    if (!cuda.empty()) f.found += " for CUDA " + cuda;
    if (!gpus.devices.empty() && NewerMajor(cuda, gpus.cuda_driver)) {
      f.level = Level::kWarning;
      f.needed += fmt::format(", for CUDA {} or older", MajorOf(gpus.cuda_driver));
      f.why = "the driver can't run the CUDA that it was built for: several GPUs won't train";
      f.fix = fmt::format("install the NCCL package for CUDA {}, or a driver {} or newer",
                          MajorOf(gpus.cuda_driver), DriverFor(cuda).full);
    }
    return {f};
  }
  const std::string path = FindOwnLibrary(s.system, kNccl);
  if (!path.empty()) {
    f.found = s.system.IsHere() ? path + " doesn't load, or doesn't answer"
                                : fmt::format("{}; {}", path, gpus.why);
  }
  if (gpus.devices.size() > 1) {
    f.level = Level::kWarning;
    f.why = fmt::format("there are {} GPUs; together they need it", gpus.devices.size());
    f.fix = path.empty() ? "install libnccl2, or point LD_LIBRARY_PATH at its folder"
                         : "`exp doctor --library " + path +
                               "` says what it misses; else install libnccl2 again";
  }
  return {f};
}

}  // namespace xp::doctor
