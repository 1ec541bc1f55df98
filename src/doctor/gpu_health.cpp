// What NVML tells of each card, at rest and under load.
#include <fmt/format.h>

#include <algorithm>

#include "exp/doctor/checks.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

using snapshot::Nvml;

std::string Id(int index, const char* what) { return fmt::format("gpu.{}.{}", index, what); }

// Known to be: of a card that doesn't tell how busy it is nothing can be said.
bool IsIdle(const Nvml::Sample& now) { return now.gpu_percent && *now.gpu_percent < 10; }

Finding Row(int index, const char* what) { return {.id = Id(index, what), .group = "health"}; }

Finding Power(const GpuState& gpu) {
  Finding f = Row(gpu.index, "power");
  const Nvml::Static& a = gpu.about;
  if (!a.power_limit_mw) {
    f.level = Level::kAbsent;
    f.found = "the card doesn't tell its power limit";
    return f;
  }
  int limit = *a.power_limit_mw / 1000;
  int normal =
      a.power_limit_default_mw.value_or(a.power_limit_max_mw.value_or(*a.power_limit_mw)) / 1000;
  f.found = fmt::format("limit {} W, default {} W", limit, normal);
  if (gpu.now.power_mw) f.found += fmt::format(", drawing {} W", *gpu.now.power_mw / 1000);
  f.needed = fmt::format("{} W, as the card came", normal);
  f.numbers = {{"limit_w", limit}, {"default_w", normal}};
  if (limit < normal) {
    f.level = Level::kWarning;
    f.why = "somebody capped it: it lowers its clocks under load";
    f.fix = fmt::format("nvidia-smi -i {} -pl {} (as root)", gpu.index, normal);
  }
  return f;
}

Finding Heat(const GpuState& gpu) {
  Finding f = Row(gpu.index, "heat");
  if (!gpu.now.celsius) {
    f.level = Level::kAbsent;
    f.found = "the card doesn't tell its temperature";
    return f;
  }
  int celsius = *gpu.now.celsius;
  int slowdown = gpu.about.slowdown_celsius.value_or(0);
  if (slowdown <= 0) slowdown = 90;  // not told
  f.found = fmt::format("{} C{}", celsius, IsIdle(gpu.now) ? " at rest" : "");
  f.needed = fmt::format("well below {} C, where it slows down", slowdown);
  f.numbers = {{"celsius", celsius}, {"slowdown_celsius", slowdown}};
  if (celsius >= slowdown - 2) {
    f.level = Level::kError;
  } else if (celsius >= slowdown - 15 && IsIdle(gpu.now)) {
    f.level = Level::kWarning;
  }
  if (f.level != Level::kOk) {
    f.why = "it will slow down, or already does";
    f.fix = "look after fans, dust, and the room's air; `nvidia-smi -q -d TEMPERATURE` has more";
  }
  return f;
}

Finding Use(const GpuState& gpu) {
  Finding f = Row(gpu.index, "use");
  const int busy = gpu.now.gpu_percent.value_or(0);
  auto used = static_cast<double>(gpu.now.memory_used.value_or(0));
  auto total = static_cast<double>(gpu.about.memory_bytes.value_or(0));
  const bool memory = total > 0 && gpu.now.memory_used;
  f.found = gpu.now.gpu_percent ? fmt::format("{} % busy", busy)
            : memory            ? "the card doesn't tell how busy it is"
                                : "the card doesn't tell how busy and how full it is";
  if (memory) f.found += fmt::format(", {} of {} in use", Gib(used), Gib(total));
  if (!memory && !gpu.now.gpu_percent) f.level = Level::kAbsent;
  f.needed = "nobody else at work on it";
  if (gpu.about.compute_mode == 2) {
    f.level = Level::kError;
    f.found += ", compute mode prohibited";
    f.why = "no program may compute on it";
    f.fix = fmt::format("nvidia-smi -i {} -c DEFAULT (as root)", gpu.index);
  } else if (!gpu.about.mig.value_or(false) && (busy > 20 || (total > 0 && used > 0.1 * total))) {
    f.level = Level::kWarning;
    f.why = "another program takes its time or its memory";
    f.fix = "`nvidia-smi` shows who; choose another card with --device cuda:N";
  }
  // What is told is of the whole card; others at work in their instances don't disturb.
  if (gpu.about.mig.value_or(false)) f.found += ", split into MIG instances";
  if (OneProcessOnly(gpu.about)) f.found += ", compute mode exclusive: for one process at a time";
  return f;
}

Finding Persistence(const GpuState& gpu) {
  Finding f = Row(gpu.index, "persistence");
  if (!gpu.about.persistence) {
    f.level = Level::kAbsent;
    f.found = "the card doesn't tell its persistence mode";
    return f;
  }
  f.found = *gpu.about.persistence ? "on" : "off";
  f.needed = "on";
  if (!*gpu.about.persistence) {
    f.level = Level::kWarning;
    f.why = "each first start takes seconds more, and settings such as clocks are lost between";
    f.fix = "run nvidia-persistenced, or nvidia-smi -pm 1 (as root)";
  }
  return f;
}

Finding Clocks(const GpuState& gpu) {
  Finding f = Row(gpu.index, "throttle");
  if (!gpu.now.throttle) {
    f.level = Level::kAbsent;
    f.found = "the card doesn't tell what holds its clocks down";
    return f;
  }
  const std::vector<std::string> reasons = snapshot::ThrottleReasons(*gpu.now.throttle);
  f.found = !reasons.empty()  ? Listed(reasons)
            : IsIdle(gpu.now) ? "nothing holds its clocks down at rest"
                              : "nothing holds its clocks down";
  if (gpu.now.sm_mhz && gpu.about.max_sm_mhz) {
    f.found += fmt::format("; {} of {} MHz", *gpu.now.sm_mhz, *gpu.about.max_sm_mhz);
    f.numbers = {{"sm_mhz", *gpu.now.sm_mhz}, {"max_sm_mhz", *gpu.about.max_sm_mhz}};
  }
  if (!reasons.empty() && IsIdle(gpu.now)) {
    f.level = Level::kWarning;
    f.needed = "no reason to throttle while it is idle";
    f.why = "it will be slower than the card can be";
    f.fix = "`nvidia-smi -q -d PERFORMANCE` has more; look after power supply and cooling";
  }
  return f;
}

Finding Ecc(const GpuState& gpu) {
  Finding f = Row(gpu.index, "ecc");
  const Nvml::Faults& e = gpu.errors;
  f.needed = "no uncorrected errors, nothing waiting to be replaced";
  std::vector<std::string> bad, seen;
  if (e.uncorrected.value_or(0) > 0) bad.push_back(fmt::format("{} uncorrected", *e.uncorrected));
  if (e.remap_failed.value_or(false)) bad.emplace_back("a row couldn't be remapped");
  bool pending = e.remap_pending.value_or(false) || e.retirement_pending.value_or(false);
  if (e.corrected.value_or(0) > 0) seen.push_back(fmt::format("{} corrected", *e.corrected));
  if (e.retired_pages.value_or(0) > 0) {
    seen.push_back(fmt::format("{} retired pages", *e.retired_pages));
  }
  int rows = e.remapped_corrected.value_or(0) + e.remapped_uncorrected.value_or(0);
  if (rows > 0) seen.push_back(fmt::format("{} remapped rows", rows));
  f.found = gpu.about.ecc ? (*gpu.about.ecc ? "ECC on" : "ECC off") : "no ECC told";
  for (const auto* list : {&bad, &seen}) {
    for (const std::string& text : *list) f.found += ", " + text;
  }
  if (pending) f.found += ", a replacement waits for a reset";
  if (!bad.empty()) {
    f.level = Level::kError;
    f.why = "its memory gives wrong values or ends programs";
    f.fix = "reset the card or reboot; if it comes back, have the card replaced (RMA)";
  } else if (pending || e.retired_pages.value_or(0) >= 48 ||
             e.remapped_uncorrected.value_or(0) > 0) {
    f.level = Level::kWarning;
    f.why = "its memory has had faults";
    f.fix = "reset the card or reboot when nobody uses it, and watch whether the count grows";
  } else if (!gpu.about.ecc && !e.retired_pages && !e.remapped_corrected) {
    f.level = Level::kAbsent;
  }
  return f;
}

struct Range {
  int low = 0, high = 0;
  double mean = 0;
};

template <class Get>
std::optional<Range> Over(const std::vector<Nvml::Sample>& samples, size_t first, Get get) {
  Range r;
  int count = 0;
  for (size_t i = first; i < samples.size(); ++i) {
    std::optional<int> value = get(samples[i]);
    if (!value) continue;
    r.low = count == 0 ? *value : std::min(r.low, *value);
    r.high = count == 0 ? *value : std::max(r.high, *value);
    r.mean += *value;
    ++count;
  }
  if (count == 0) return std::nullopt;
  r.mean /= count;
  return r;
}

// What held the clocks down from a sample on.
struct Held {
  uint64_t bits = 0;
  double share = 0;  // of the samples that tell
};

Held HeldDown(const std::vector<Nvml::Sample>& samples, size_t first) {
  Held out;
  int held = 0, told = 0;
  for (size_t i = first; i < samples.size(); ++i) {
    if (!samples[i].throttle) continue;
    out.bits |= *samples[i].throttle;
    held += snapshot::ThrottleReasons(*samples[i].throttle).empty() ? 0 : 1;
    ++told;
  }
  if (told > 0) out.share = static_cast<double>(held) / told;
  return out;
}

// "20 s at full load: 1474 MHz of 1980, 692 W, up to 55 C"; absent where the card tells no clock.
Finding Seen(const LoadSeen& seen, size_t first) {
  Finding f = Row(seen.index, "load");
  auto clock = Over(seen.samples, first, [](const Nvml::Sample& s) { return s.sm_mhz; });
  auto power = Over(seen.samples, first, [](const Nvml::Sample& s) { return s.power_mw; });
  auto heat = Over(seen.samples, 0, [](const Nvml::Sample& s) { return s.celsius; });
  f.found = fmt::format("{:.0f} s at full load", seen.seconds);
  if (clock) {
    f.found += fmt::format(": {:.0f} MHz", clock->mean);
    if (seen.about.max_sm_mhz) f.found += fmt::format(" of {}", *seen.about.max_sm_mhz);
    f.numbers.emplace_back("sm_mhz", clock->mean);
  }
  if (power) {
    f.found += fmt::format(", {:.0f} W", power->mean / 1000);
    f.numbers.emplace_back("watts", power->mean / 1000);
  }
  if (heat) {
    f.found += fmt::format(", up to {} C", heat->high);
    f.numbers.emplace_back("celsius", heat->high);
  }
  if (!clock) f.level = Level::kAbsent;
  return f;
}

Finding Load(const LoadSeen& seen) {
  const size_t first = seen.samples.size() / 5;  // before: the clocks' way up
  Finding f = Seen(seen, first);
  const Held held = HeldDown(seen.samples, first);
  f.numbers.emplace_back("throttled_share", held.share);
  const std::vector<std::string> reasons = snapshot::ThrottleReasons(held.bits);
  if (reasons.empty()) return f;
  f.level = Level::kOk;
  f.found +=
      fmt::format("; held down by {} {:.0f} % of the time", Listed(reasons), 100 * held.share);
  f.needed = "no throttling but by the card's own power limit";
  // At its own power limit a card under full load is as it should be.
  constexpr uint64_t kPowerCap = 0x04;
  const bool only_power = reasons == snapshot::ThrottleReasons(kPowerCap);
  const bool capped = seen.about.power_limit_mw && seen.about.power_limit_default_mw &&
                      *seen.about.power_limit_mw < *seen.about.power_limit_default_mw;
  if (only_power && !capped) return f;
  f.level = Level::kWarning;
  f.why = "training is slower than the card can be";
  f.fix = only_power ? fmt::format("raise the power limit: nvidia-smi -i {} -pl {}", seen.index,
                                   *seen.about.power_limit_default_mw / 1000)
                     : "look after cooling and power supply; `nvidia-smi -q -d PERFORMANCE`";
  return f;
}

Finding Pcie(const LoadSeen& seen) {
  Finding f = Row(seen.index, "pcie");
  // The link sleeps when idle: the fastest that was seen counts.
  auto width = Over(seen.samples, 0, [](const Nvml::Sample& s) { return s.pcie_width; });
  auto generation = Over(seen.samples, 0, [](const Nvml::Sample& s) { return s.pcie_generation; });
  if (!width || !generation) {
    f.level = Level::kAbsent;
    f.found = "the card doesn't tell its PCIe link";
    return f;
  }
  int best_width = seen.about.pcie_width.value_or(width->high);
  int best_generation = seen.about.pcie_generation.value_or(generation->high);
  f.found = fmt::format("generation {} x{} under load", generation->high, width->high);
  f.needed = fmt::format("generation {} x{}", best_generation, best_width);
  f.numbers = {{"generation", generation->high}, {"width", width->high}};
  if (width->high < best_width || generation->high < best_generation) {
    f.level = Level::kWarning;
    f.why = "images reach the card slowly";
    f.fix =
        "seat the card in a slot with all lanes, look at riser, BIOS (link speed, "
        "bifurcation) and `nvidia-smi -q -d PCIE`";
  }
  return f;
}

}  // namespace

bool OneProcessOnly(const Nvml::Static& about) {
  return about.compute_mode == 1 || about.compute_mode == 3;
}

Findings CheckGpuHealth(const Subject& s) {
  Findings out;
  for (const GpuState& gpu : s.system.QueryGpus().devices) {
    if (!gpu.about.problem.empty()) continue;  // CheckDriver says so
    for (auto* check : {Use, Heat, Power, Persistence, Clocks, Ecc}) out.push_back(check(gpu));
  }
  return out;
}

Findings CheckUnderLoad(const LoadSeen& seen) { return {Load(seen), Pcie(seen)}; }

}  // namespace xp::doctor
