#include "src/bench/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include "exp/graph/backend.h"

namespace xp::bench {
namespace {

namespace fs = std::filesystem;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of all CPU packages; -1 where they can't be read (since 2020 only root may).
double Joules() {
  double sum = -1;
  std::error_code error;
  for (fs::directory_iterator it("/sys/class/powercap", error), end; !error && it != end;
       it.increment(error)) {
    std::string name = it->path().filename().string();
    bool package =
        name.starts_with("intel-rapl:") && std::count(name.begin(), name.end(), ':') == 1;
    std::ifstream in(it->path() / "energy_uj");
    double microjoules = 0;
    if (package && in >> microjoules) sum = std::max(sum, 0.0) + microjoules * 1e-6;
  }
  return sum;
}

}  // namespace

PowerMeter::PowerMeter(int cuda) : start_(Now()) {
  if (cuda < 0) {
    joules_ = Joules();
    return;
  }
  nvml_ = snapshot::Nvml::Shared()->nvml;
  if (!nvml_) return;
  const auto card = snapshot::CardOfCuda(*nvml_, cuda, graph::CudaPciBusId(cuda));
  if (!card) return;
  index_ = *card;
  thread_ = std::thread([this] {
    while (!stop_) {
      samples_.push_back(nvml_->Take(index_));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
}

PowerMeter::~PowerMeter() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

PowerSeen PowerMeter::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  PowerSeen seen = Summarise(samples_);
  double joules = joules_ >= 0 ? Joules() - joules_ : -1, seconds = Now() - start_;
  // The counter wraps every few minutes: a negative difference says nothing.
  if (joules > 0 && seconds > 0) seen.watts = joules / seconds;
  return seen;
}

PowerSeen Summarise(const std::vector<snapshot::Nvml::Sample>& samples) {
  PowerSeen seen;
  int powers = 0, clocks = 0, told = 0;
  std::map<std::string, int> reasons;
  for (const snapshot::Nvml::Sample& s : samples) {
    if (s.power_mw) seen.watts += *s.power_mw / 1000.0, ++powers;
    if (s.sm_mhz) seen.sm_mhz += *s.sm_mhz, ++clocks;
    if (s.celsius) seen.celsius = std::max(seen.celsius, static_cast<double>(*s.celsius));
    told += s.throttle ? 1 : 0;
    for (const std::string& reason : snapshot::ThrottleReasons(s.throttle.value_or(0))) {
      ++reasons[reason];
    }
  }
  if (powers > 0) seen.watts /= powers;
  if (clocks > 0) seen.sm_mhz /= clocks;
  for (const auto& [reason, count] : reasons) {
    seen.throttled.push_back(fmt::format("{} {:.0f} %", reason, 100.0 * count / told));
  }
  return seen;
}

}  // namespace xp::bench
