// The environment as doctor and bench keep it.
#pragma once

#include <string>

namespace xp::cli {

// snapshot::CaptureEnvironment of this process without secrets, with "cuda_build": what the CUDA
// backend was built with.
std::string MachineEnvironment(bool python);

}  // namespace xp::cli
