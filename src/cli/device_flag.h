// `--device`, which many commands take.
#pragma once

#include <string>

#include "src/cli/arguments.h"

namespace xp::cli {

// Another word than a device's name is refused while the command line is read, before anything is
// done under it.
template <typename Text>  // std::string, or an optional of it
Argument AddDeviceFlag(Command command, Text& device,
                       const char* description = "auto, cpu, cuda or cuda:N");

}  // namespace xp::cli
