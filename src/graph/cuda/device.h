// Finding a device that this program can use, and saying why there is none.
#pragma once

#include <string>

#include "src/graph/cuda/kernel.h"

namespace xp::graph::cuda {

// Makes the device current and describes it. Throws UsageError naming what is missing (a driver, a
// newer driver, a device of that number, machine code for it) with versions found and needed.
Device OpenDevice(int ordinal);

// "580.159.03", or "CUDA 13.0" where the driver's own version can't be read.
std::string DriverVersion();

}  // namespace xp::graph::cuda
