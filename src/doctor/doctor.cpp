#include "exp/doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <optional>

#include "exp/base/error.h"
#include "exp/base/stopwatch.h"
#include "exp/base/temporary_folder.h"
#include "exp/bench/speeds.h"
#include "exp/doctor/checks.h"
#include "exp/doctor/measure.h"
#include "exp/doctor/smoke.h"
#include "exp/graph/backend.h"
#include "src/doctor/room.h"
#include "src/train/device.h"

namespace xp::doctor {
namespace {

using graph::Backend;
using graph::DType;

constexpr double kBudget = 28;    // seconds of the usual examination
constexpr int kEnginesTried = 2;  // enough to compute with; speed isn't the question

// What computing in this program, and a process like it, take of memory besides what they test.
constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kComputing = 96 * kMib, kProcess = 96 * kMib, kDecoding = 32 * kMib;

std::unique_ptr<Backend> Open(int cuda, bool tf32, const std::string& plans, int threads) {
  if (cuda < 0) return graph::CreateCpuBackend(threads);
  graph::CudaOptions options;
  options.device = cuda;
  options.tf32 = tf32;
  options.plan_cache = plans;
  options.engines_tried = kEnginesTried;
  return graph::CreateCudaBackend(options);
}

Finding Speed(const Backend& device, DType compute, const bench::DeviceSpeeds& speeds) {
  Finding f{.id = "device.speed", .group = "speed"};
  if (speeds.copy_bytes_a_second <= 0) {
    f.level = Level::kAbsent;
    f.found = device.description() + ": not measured, its memory has no room for the test";
    return f;
  }
  f.found = fmt::format("{}: copies {:.0f} GB/s, multiplies {:.0f} GFLOP/s in {}",
                        device.description(), speeds.copy_bytes_a_second * 1e-9,
                        speeds.matrix_flop_a_second * 1e-9, graph::DTypeName(compute));
  f.numbers = {{"copy_tb_s", speeds.copy_bytes_a_second * 1e-12},
               {"matrix_tflop_s", speeds.matrix_flop_a_second * 1e-12}};
  return f;
}

class Examination {
 public:
  explicit Examination(const DoctorOptions& options)
      : options_(options),
        system_(MakeHostSystem(options.root)),
        subject_{*system_,       graph::DescribeCudaBuild(),
                 options.binary, options.data,
                 options.store,  options.work} {
    if (!train::IsDeviceName(options.device)) train::CudaNumber(options.device);  // says so
  }

  Report Run() {
    try {
      CheckAll(subject_, [&](Finding f) { Add(std::move(f)); });
      if (options_.measure && options_.root.empty()) Measure();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kInterrupted) throw;
      report_.interrupted = true;
    }
    report_.deep = options_.deep;
    report_.seconds = watch_.Seconds();
    report_.worst = WorstLevel(report_.findings);
    return std::move(report_);
  }

 private:
  // Plans found here, with few tries, must not be taken for the best ones by a training. Empty
  // where no folder can be made.
  const std::string& Plans() {
    if (!plans_) plans_.emplace("doctor");
    return plans_->path();
  }
  // What a check found while it was stopped isn't told: a terminal's Ctrl-C also reaches what it
  // started, and it may not have come to its end.
  void Add(Finding f) {
    ThrowIfStopped(options_.stop);
    report_.findings.push_back(std::move(f));
    if (options_.on_finding) options_.on_finding(report_.findings.back());
  }
  void Add(const Findings& all) {
    for (const Finding& f : all) Add(f);
  }

  // A computation whose threads can't be started ends the program, so they are tried before.
  Finding Threads() {
    const int wanted = UsableCpus();
    threads_ = StartableThreads(wanted - 1) + 1;
    return JudgeThreads(threads_, wanted);
  }

  // True where the test named by `id` may begin; else its row says why not.
  bool Fits(const char* id, const char* group, uint64_t bytes) {
    auto none = NoRoom({.id = id, .group = group}, bytes);
    if (none) Add(*none);
    return !none;
  }

  void Measure() {
    int cuda = train::CudaNumber(options_.device);
    Add(Threads());
    Add(CheckMemoryOf(-1, options_.deep, options_.stop));
    if (!Fits("smoke", "smoke", kComputing)) {
      Reading(0);
      return;
    }
    std::unique_ptr<Backend> device;
    try {
      if (cuda >= 0) Add(CheckMemoryOf(cuda, options_.deep, options_.stop));
      device = Open(cuda, false, cuda >= 0 ? Plans() : "", threads_);
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::kInterrupted) throw;
      Add(DoesNotOpen(e));
      cuda = -1;
      device = Open(cuda, false, "", threads_);
    }
    Smoke(*device, cuda);
    Speeds(*device, cuda);
  }

  void Smoke(Backend& device, int cuda) {
    std::unique_ptr<Backend> reference = graph::CreateCpuBackend(1);
    SmokeTests(device, *reference, [&](const Finding& f) { Add(f); });
    if (cuda >= 0) {
      Add(Tf32Error([&](bool tf32) { return Open(cuda, tf32, Plans(), threads_); }));
    }
    if (options_.child.empty()) return;
    std::vector<std::string> argv = options_.child;
    argv.push_back(cuda < 0 ? "cpu" : fmt::format("cuda:{}", cuda));
    argv.push_back(cuda < 0 ? "" : Plans());
    if (cuda >= 0 && Plans().empty()) {
      return Add({.id = "smoke.two_processes",
                  .group = "smoke",
                  .level = Level::kAbsent,
                  .found = "no temporary folder can be made for cuDNN's plans",
                  .needed = "TMPDIR, a folder that can be written"});
    }
    if (cuda >= 0 && IsExclusive(cuda)) {
      return Add(
          {.id = "smoke.two_processes",
           .group = "smoke",
           .level = Level::kAbsent,
           .found = "left out: the card's compute mode is exclusive, and this process has it",
           .needed = "compute mode DEFAULT, to run several processes on the card"});
    }
    if (!Fits("smoke.two_processes", "smoke", 2 * kProcess)) return;
    if (int started = StartableThreads(2); started < 2) {
      return Add({.id = "smoke.two_processes",
                  .group = "smoke",
                  .level = Level::kAbsent,
                  .found = fmt::format("left out: {} more processes can be started", started),
                  .needed = "2, by `ulimit -u` and the container's limit of processes"});
    }
    int times = options_.deep ? 5 : 1;
    Finding worst;
    for (int i = 0; i < times; ++i) {
      Finding f = TwoProcesses(argv, options_.stop);
      if (i == 0 || f.level > worst.level) worst = f;
    }
    Add(worst);
  }

  // The disk and the decoder are measured while the GPU works: the load needs no core.
  void Speeds(Backend& device, int cuda) {
    DType compute = cuda < 0 ? DType::kF32 : DType::kBF16;
    bench::DeviceSpeeds speeds = bench::MeasureSpeeds(device, compute);
    Add(Speed(device, compute, speeds));
    std::future<LoadResult> load;
    if (cuda >= 0) {
      double seconds = options_.deep ? 60 : std::clamp(kBudget - watch_.Seconds(), 6.0, 20.0);
      load = std::async(std::launch::async, [&, seconds] {
        return LoadDevice(device, compute, NvmlIndex(cuda), seconds, options_.stop);
      });
    }
    Reading(ResNetNeed(speeds.copy_bytes_a_second, speeds.matrix_flop_a_second, cuda >= 0));
    if (!load.valid()) return;
    try {
      LoadResult result = load.get();
      Add(CheckUnderLoad(result.seen));
      Add(JudgeSpeedUnderLoad(result));
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::kInterrupted) throw;
      Add(LoadFailed(NvmlIndex(cuda), e));
    }
  }

  void Reading(double needed_images_a_second) {
    ReadSpeed reads = MeasureReads(subject_.data, options_.deep ? 10 : 1.5, options_.stop);
    Add(JudgeReads(subject_.data, reads));
    if (!Fits("decode", "speed", kDecoding)) return;
    DecodeSpeed decode = MeasureDecode(reads.images, options_.deep ? 5 : 1, options_.stop);
    Add(JudgeLoader(reads, decode, needed_images_a_second));
  }

  // What NVML says of CUDA's device; nullopt where it doesn't know it.
  std::optional<GpuState> CardOf(int cuda) const {
    const std::shared_ptr<snapshot::Nvml> nvml = snapshot::Nvml::Shared()->nvml;
    const std::optional<int> card =
        nvml ? snapshot::CardOfCuda(*nvml, cuda, graph::CudaPciBusId(cuda)) : std::nullopt;
    for (const GpuState& gpu : system_->QueryGpus().devices) {
      if (gpu.index == card) return gpu;
    }
    return std::nullopt;
  }

  bool IsExclusive(int cuda) const {
    const std::optional<GpuState> card = CardOf(cuda);
    return card && OneProcessOnly(card->about);
  }

  int NvmlIndex(int cuda) const {
    const std::optional<GpuState> card = CardOf(cuda);
    return card ? card->index : cuda;
  }

  const DoctorOptions& options_;
  Stopwatch watch_;
  std::unique_ptr<System> system_;
  Subject subject_;
  std::optional<TemporaryFolder> plans_;
  Report report_;
  int threads_ = 1;
};

}  // namespace

Report Examine(const DoctorOptions& options) { return Examination(options).Run(); }

void RunChild(const std::string& device, const std::string& plans) {
  constexpr int kSteps = 40;
  // The same plan gives the same bits, another one others, and the choice by measuring could differ
  // between processes: the first child, which is alone, chooses, the others find its choice.
  std::unique_ptr<Backend> backend;
  int cuda = train::CudaNumber(device);
  if (cuda < 0) {
    backend = graph::CreateCpuBackend(1);  // the number of threads decides bits
  } else {
    graph::CudaOptions options;
    options.device = cuda;
    options.plan_cache = plans;
    options.engines_tried = 1;
    backend = graph::CreateCudaBackend(options);
  }
  TrainSmall(*backend, 1);
  Rendezvous([&] { return TrainSmall(*backend, kSteps).hash; });
}

int ExitCode(Level worst) { return worst == Level::kError ? 1 : worst == Level::kWarning ? 4 : 0; }

}  // namespace xp::doctor
