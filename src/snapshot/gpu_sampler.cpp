#include "exp/snapshot/gpu_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "exp/snapshot/nvml.h"

namespace xp::snapshot {
namespace {

constexpr int kNearCelsius = 2;

struct Statistic {
  double low = 0, high = 0, sum = 0;
  int64_t count = 0;
  void Add(double value) {
    low = count ? std::min(low, value) : value;
    high = count ? std::max(high, value) : value;
    sum += value;
    ++count;
  }
};

}  // namespace

struct GpuSampler::Impl {
  GpuSamplerOptions options;
  std::shared_ptr<Nvml> nvml;
  std::vector<int> devices;
  int shown = 0;  // of Celsius()
  std::map<int, Nvml::Static> known;
  mutable std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  std::map<std::string, Statistic> statistics;
  std::optional<double> celsius;
  std::set<std::string> warned;
  std::thread thread;

  void Loop();
  void Sample(int device, int64_t n);
  void Value(int device, const char* name, int64_t n, double value);
  void Warn(int device, const char* code, const std::string& text);
  void CheckLimits(int device);
};

void GpuSampler::Impl::Value(int device, const char* name, int64_t n, double value) {
  {
    std::lock_guard lock(mutex);
    statistics[fmt::format("{}.{}", device, name)].Add(value);
  }
  if (options.on_value) options.on_value(fmt::format("gpu/{}/{}", device, name), n, value);
}

void GpuSampler::Impl::Warn(int device, const char* code, const std::string& text) {
  if (!warned.insert(fmt::format("{}{}", code, device)).second || !options.on_warning) return;
  options.on_warning(code, fmt::format("GPU {} ({}): {}", device, known[device].name, text));
}

void GpuSampler::Impl::CheckLimits(int device) {
  const Nvml::Static& d = known[device];
  if (d.power_limit_mw && d.power_limit_max_mw && *d.power_limit_mw < *d.power_limit_max_mw) {
    Warn(device, "gpu.power_limit",
         fmt::format("its power limit is {} W of {} W", *d.power_limit_mw / 1000,
                     *d.power_limit_max_mw / 1000));
  }
}

void GpuSampler::Impl::Sample(int device, int64_t n) {
  Nvml::Sample s = nvml->Take(device);
  if (!s.problem.empty()) {
    Warn(device, "gpu.lost",
         fmt::format("nothing is told of it any more: {}; `nvidia-smi` and the kernel's log (Xid) "
                     "may say why",
                     s.problem));
  }
  if (s.celsius) Value(device, "celsius", n, *s.celsius);
  if (s.power_mw) Value(device, "watts", n, *s.power_mw / 1000.0);
  if (s.sm_mhz) Value(device, "sm_mhz", n, *s.sm_mhz);
  if (s.memory_mhz) Value(device, "memory_mhz", n, *s.memory_mhz);
  if (s.gpu_percent) Value(device, "percent", n, *s.gpu_percent);
  if (s.memory_percent) Value(device, "memory_percent", n, *s.memory_percent);
  if (s.memory_used)
    Value(device, "memory_gib", n, static_cast<double>(*s.memory_used) / (1 << 30));
  if (s.throttle) Value(device, "throttle", n, static_cast<double>(*s.throttle));
  for (const ThrottleReason* r : ReasonsIn(s.throttle.value_or(0))) Warn(device, r->code, r->text);
  const Nvml::Static& d = known[device];
  if (s.celsius && d.slowdown_celsius && *s.celsius >= *d.slowdown_celsius - kNearCelsius) {
    Warn(device, "gpu.hot",
         fmt::format("{} C, it slows down at {} C", *s.celsius, *d.slowdown_celsius));
  }
  if (device == shown) {
    std::lock_guard lock(mutex);
    celsius = s.celsius;
  }
}

void GpuSampler::Impl::Loop() {
  auto interval = std::chrono::duration<double>(options.interval_seconds);
  for (int64_t n = 0;; ++n) {
    try {
      for (int device : devices) Sample(device, n);
    } catch (const std::exception&) {  // no memory for this sample
    }
    std::unique_lock lock(mutex);
    if (wake.wait_for(lock, interval, [this] { return stop; })) return;
  }
}

GpuSampler::GpuSampler(GpuSamplerOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  if (impl_->options.interval_seconds <= 0) return;
  impl_->nvml = Nvml::Shared()->nvml;
  if (!impl_->nvml) return;
  impl_->devices = VisibleGpus(*impl_->nvml);
  if (impl_->devices.empty()) return;
  impl_->shown = CardOfCuda(*impl_->nvml, impl_->options.cuda, impl_->options.pci_bus_id)
                     .value_or(impl_->devices.front());
  for (int device : impl_->devices) {
    impl_->known[device] = impl_->nvml->Describe(device);
    impl_->CheckLimits(device);
  }
  impl_->thread = std::thread([this] { impl_->Loop(); });
}

GpuSampler::~GpuSampler() {
  if (!impl_->thread.joinable()) return;
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->wake.notify_all();
  impl_->thread.join();
}

std::vector<std::pair<std::string, double>> GpuSampler::TakeStatistics() {
  std::lock_guard lock(impl_->mutex);
  std::vector<std::pair<std::string, double>> out;
  for (const auto& [name, s] : impl_->statistics) {
    if (name.ends_with(".throttle")) continue;
    out.emplace_back(name + ".min", s.low);
    out.emplace_back(name + ".mean", s.sum / static_cast<double>(s.count));
    out.emplace_back(name + ".max", s.high);
  }
  impl_->statistics.clear();
  return out;
}

std::optional<double> GpuSampler::Celsius() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->celsius;
}

}  // namespace xp::snapshot
