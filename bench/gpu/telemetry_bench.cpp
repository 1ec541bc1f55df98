// What the GPU telemetry costs the host: processor time of the sampler as `exp run` uses it. Prints
// one JSON object.
//   usage: exp_telemetry_bench [SECONDS]
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>

#include "exp/snapshot/gpu_sampler.h"
#include "exp/snapshot/nvml.h"

namespace {

// Of all threads, in seconds.
double Processor() {
  timespec t;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace xp::snapshot;
  int seconds = argc > 1 ? std::atoi(argv[1]) : 10;
  int64_t values = 0;
  double used = 0, first = Processor();
  std::string statistics;
  {
    GpuSampler sampler({.interval_seconds = 1,
                        .on_value = [&](const std::string&, int64_t, double) { ++values; }});
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // loading the library aside
    first = Processor() - first;
    double before = Processor();
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    used = Processor() - before;
    for (const auto& [name, value] : sampler.TakeStatistics())
      if (name.ends_with(".mean")) statistics += fmt::format(" {}={:.4g}", name, value);
  }
  fmt::print(
      "{{\"seconds\": {}, \"values\": {}, \"start_processor_ms\": {:.2f}, "
      "\"processor_ms_a_sample\": "
      "{:.3f}, \"share_of_a_core_percent\": {:.4f}, \"means\": \"{}\"}}\n",
      seconds, values, first * 1e3, used / seconds * 1e3, used / seconds * 100, statistics);
}
