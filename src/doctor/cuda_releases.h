// Versions of CUDA and of the drivers that run them; private to src/doctor.
#pragma once

#include <string>

namespace xp::doctor {

// The newest driver that CUDA `runtime` ("13.0") came with, and the oldest one that runs it by
// minor-version compatibility; empty where the table doesn't know.
struct DriverNeed {
  std::string full, minor;
};
DriverNeed DriverFor(const std::string& runtime);

// Whether a driver that runs CUDA `driver_cuda` is too old for what was built for `cuda`; false
// where one of them is empty.
bool NewerMajor(const std::string& cuda, const std::string& driver_cuda);

}  // namespace xp::doctor
