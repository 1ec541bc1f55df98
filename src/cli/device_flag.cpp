#include "src/cli/device_flag.h"

#include <optional>

#include "src/train/device.h"

namespace xp::cli {

template <typename Text>
Argument AddDeviceFlag(Command command, Text& device, const char* description) {
  return command.AddOption("--device", device, description).Check([](const std::string& name) {
    return train::IsDeviceName(name)
               ? std::string()
               : "`" + name + "` is no device; expected auto, cpu, cuda or cuda:N";
  });
}
template Argument AddDeviceFlag(Command, std::string&, const char*);
template Argument AddDeviceFlag(Command, std::optional<std::string>&, const char*);

}  // namespace xp::cli
