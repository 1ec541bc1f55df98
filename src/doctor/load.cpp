// A device under load, and its memory.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "exp/base/error.h"
#include "exp/base/stopwatch.h"
#include "exp/bench/speeds.h"
#include "exp/doctor/measure.h"
#include "src/doctor/room.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

constexpr uint64_t kLeastTested = uint64_t{16} << 20;

Finding MemoryRow(int cuda_device) {
  return {.id = cuda_device >= 0 ? fmt::format("gpu.{}.memory", cuda_device) : "memory.test",
          .group = "smoke",
          .needed = "every word reads back as it was written"};
}

}  // namespace

LoadResult LoadDevice(graph::Backend& backend, graph::DType compute, int nvml_index, double seconds,
                      StopFlag stop) {
  LoadResult out;
  std::shared_ptr<snapshot::Nvml> nvml =
      backend.is_cuda() ? snapshot::Nvml::Shared()->nvml : nullptr;
  out.seen.index = nvml_index;
  if (nvml) out.seen.about = nvml->Describe(nvml_index);
  bench::MatrixLoad load(backend, compute, backend.is_cuda() ? 8192 : 1024);
  load.Run(1);
  std::atomic<bool> ended{false};
  std::thread sampler;
  if (nvml) {
    sampler = std::thread([&] {
      while (!ended) {
        out.seen.samples.push_back(nvml->Take(nvml_index));
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      }
    });
  }
  double flop = 0;
  Stopwatch watch;
  try {
    while (watch.Seconds() < seconds && !Stopped(stop)) {
      load.Run(backend.is_cuda() ? 20 : 1);
      flop += load.flop() * (backend.is_cuda() ? 20 : 1);
      if (watch.Seconds() < std::min(1.0, seconds / 2))
        out.first_flop_a_second = flop / watch.Seconds();
    }
  } catch (...) {
    ended = true;
    if (sampler.joinable()) sampler.join();
    throw;
  }
  out.seen.seconds = watch.Seconds();
  out.flop_a_second = flop / out.seen.seconds;
  ended = true;
  if (sampler.joinable()) sampler.join();
  return out;
}

Finding JudgeSpeedUnderLoad(const LoadResult& load) {
  Finding f{.id = fmt::format("gpu.{}.speed", load.seen.index), .group = "health"};
  double drop =
      load.first_flop_a_second > 0 ? 1 - load.flop_a_second / load.first_flop_a_second : 0;
  f.found =
      fmt::format("{:.1f} TFLOP/s over {:.0f} s, {:.1f} in the first", load.flop_a_second * 1e-12,
                  load.seen.seconds, load.first_flop_a_second * 1e-12);
  f.needed = "the speed of the first second kept up within a fifth";
  f.numbers = {{"tflop_s", load.flop_a_second * 1e-12}, {"drop", drop}};
  if (drop < 0.2) return f;
  f.level = Level::kWarning;
  f.why = "it gets slower as it gets warm";
  f.fix = "see the rows on power and heat";
  return f;
}

Finding LoadFailed(int nvml_index, const Error& error) {
  return {.id = fmt::format("gpu.{}.load", nvml_index),
          .group = "health",
          .level = Level::kError,
          .found = error.text().what,
          .needed = "it works under load",
          .why = "trainings on it will fail",
          .fix = error.text().next.empty()
                     ? "see the rows on power, heat and Xid errors; try another card"
                     : error.text().next};
}

Finding JudgeMemory(int cuda_device, const graph::MemoryCheck& check) {
  bool gpu = cuda_device >= 0;
  Finding f = MemoryRow(cuda_device);
  f.found = fmt::format("{} of free memory, {} patterns, {:.1f} s: {} words wrong",
                        Gib(static_cast<double>(check.bytes)), check.rounds, check.seconds,
                        check.bad_words);
  f.numbers = {{"bytes", static_cast<double>(check.bytes)},
               {"bad_words", static_cast<double>(check.bad_words)}};
  if (check.bad_words == 0) return f;
  f.level = Level::kError;
  f.why = "weights and images will be altered silently";
  f.fix = gpu ? "reset the card; if it comes back, have it replaced"
              : "run memtest86+; take out or replace the module";
  return f;
}

Finding CheckMemoryOf(int cuda_device, bool deep, StopFlag stop) {
  bool gpu = cuda_device >= 0;
  Finding f = MemoryRow(cuda_device);
  // Half of what may be taken, so that whatever else runs isn't killed for the test.
  const MemoryRoom room = UsableMemory();
  const uint64_t host = std::min(uint64_t{deep ? 2048u : 128u} << 20, room.free_bytes / 2);
  if (!gpu) {
    if (auto none = NoRoom(f, 2 * kLeastTested, room)) return *none;
  }
  try {
    return JudgeMemory(cuda_device,
                       gpu ? graph::CheckCudaMemory(cuda_device, UINT64_MAX, deep ? 64 : 4, stop)
                           : graph::CheckHostMemory(host, 2, stop));
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::kInterrupted) throw;
    f.level = Level::kAbsent;
    f.found = "not tested: " + e.text().what;
  }
  return f;
}

}  // namespace xp::doctor
