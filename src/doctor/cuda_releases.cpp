#include "src/doctor/cuda_releases.h"

#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

// The driver that each CUDA release came with on Linux, and the oldest of its major version that
// runs it by minor-version compatibility. Source: NVIDIA's CUDA Toolkit release notes, tables "CUDA
// Toolkit and Corresponding Driver Versions" and "Minimum Required Driver Version for CUDA Minor
// Version Compatibility".
struct Release {
  const char *cuda, *driver;
};
constexpr Release kFull[] = {
    {"13.1", "590.44.01"}, {"13.0", "580.65.06"}, {"12.9", "575.51.03"}, {"12.8", "570.26"},
    {"12.6", "560.28.03"}, {"12.5", "555.42.02"}, {"12.4", "550.54.14"}, {"12.3", "545.23.06"},
    {"12.2", "535.54.03"}, {"12.1", "530.30.02"}, {"12.0", "525.60.13"}, {"11.8", "520.61.05"},
    {"11.7", "515.43.04"}, {"11.6", "510.39.01"}, {"11.5", "495.29.05"}, {"11.4", "470.42.01"},
    {"11.3", "465.19.01"}, {"11.2", "460.27.03"}, {"11.1", "455.23"},    {"11.0", "450.51.05"},
    {"10.2", "440.33"},    {"10.1", "418.39"},    {"10.0", "410.48"},    {"9.2", "396.26"},
};
constexpr Release kMinor[] = {{"13", "580.65.06"}, {"12", "525.60.13"}, {"11", "450.80.02"}};

}  // namespace

DriverNeed DriverFor(const std::string& runtime) {
  DriverNeed need;
  for (const Release& r : kMinor) {
    if (MajorOf(runtime) == r.cuda) need.minor = r.driver;
  }
  // The newest known release that isn't newer: a CUDA of tomorrow needs at least that.
  for (const Release& r : kFull) {
    if (CompareVersions(r.cuda, runtime) > 0) continue;
    need.full = r.driver;
    break;
  }
  if (need.minor.empty()) need.minor = need.full;
  return need;
}

bool NewerMajor(const std::string& cuda, const std::string& driver_cuda) {
  return !cuda.empty() && !driver_cuda.empty() &&
         CompareVersions(MajorOf(cuda), MajorOf(driver_cuda)) > 0;
}

}  // namespace xp::doctor
