// What holds a card's clocks down, in words.
#include "exp/snapshot/nvml.h"

namespace xp::snapshot {
namespace {

// nvmlClocksThrottleReason* of nvml.h.
constexpr ThrottleReason kReasons[] = {
    {0x04, "power cap", "gpu.power_cap", "the power limit holds its clocks down"},
    {0x08, "hardware slowdown", "gpu.hw_slowdown",
     "the hardware has slowed it down (heat or power)"},
    {0x20, "heat", "gpu.thermal_throttle", "heat holds its clocks down"},
    {0x40, "hardware slowdown, heat", "gpu.hw_thermal_slowdown",
     "the hardware has slowed it down because of heat"},
    {0x80, "external power brake", "gpu.power_brake", "an external power brake has slowed it down"},
};

}  // namespace

std::vector<const ThrottleReason*> ReasonsIn(uint64_t bits) {
  std::vector<const ThrottleReason*> out;
  for (const ThrottleReason& r : kReasons) {
    if (bits & r.bit) out.push_back(&r);
  }
  return out;
}

std::vector<std::string> ThrottleReasons(uint64_t bits) {
  std::vector<std::string> out;
  for (const ThrottleReason* r : ReasonsIn(bits)) out.emplace_back(r->name);
  return out;
}

}  // namespace xp::snapshot
