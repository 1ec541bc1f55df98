// The CPU as a device: memory is host memory, a launch runs at once.
#include "exp/graph/backend.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include "exp/base/error.h"
#include "exp/base/resources.h"
#include "exp/graph/cpu.h"
#include "exp/graph/memory_plan.h"
#include "src/graph/cpu/onednn.h"
#include "src/graph/cpu/registry.h"

namespace xp::graph {
namespace {

constexpr size_t kCodeBytes = size_t{48} << 20;
constexpr size_t kHugePage = size_t{2} << 20;

class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(size_t bytes) : bytes_(bytes) {
    const size_t alignment = bytes < 2 * kHugePage ? kTensorAlignment : kHugePage;
    const size_t rounded = (bytes + alignment) / alignment * alignment;
    data_ = std::aligned_alloc(alignment, rounded);
    if (data_ == nullptr) {
      throw JobError({.what = fmt::format("mem lim: {} bytes of host memory can't be had", bytes),
                      .where = "cpu"});
    }
    // Maps are hundreds of megabytes: in pages of 4 KiB their addresses don't fit the TLB.
    if (alignment == kHugePage) ::madvise(data_, rounded, MADV_HUGEPAGE);
    std::memset(data_, 0, rounded);
  }
  ~HostBuffer() override { std::free(data_); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  void* data() const override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

class CopiedRead : public PendingRead {
 public:
  CopiedRead(const void* source, size_t bytes) : copy_(bytes) {
    std::memcpy(copy_.data(), source, bytes);
  }
  const void* Wait() override { return copy_.data(); }

 private:
  std::vector<char> copy_;
};

class FunctionRecording : public Recording {
 public:
  explicit FunctionRecording(std::function<void()> body) : body_(std::move(body)) {}
  void Launch() override { body_(); }

 private:
  std::function<void()> body_;
};

// In PlanNotes(), as the CUDA backend writes it: a reproduction rewrites its steps as the run did.
const std::string kStepPassesNote = "step passes = ";

// The passes that spare memory traffic here. The others trade it for arithmetic, or their kernels
// are references.
StepPasses CpuPasses(const CpuOptions& options) {
  if (!options.step_passes) return {};
  const StepPasses all{.sums = true, .pairs = true, .strided = true};
  if (options.plans.empty()) return AllowedStepPasses(all);
  StepPasses passes;
  for (const std::string& note : options.plans) {
    if (!note.starts_with(kStepPassesNote)) continue;
    const StepPasses recorded = RecordedStepPasses(all, note.substr(kStepPassesNote.size()));
    passes.sums = recorded.sums;
    passes.pairs = recorded.pairs;
    passes.strided = recorded.strided;
  }
  return passes;
}

// OpenMP ends the program where it can't start its threads.
void RequireThreads(int threads) {
  int started = StartableThreads(threads - 1) + 1;
  if (started == threads) return;
  throw JobError(
      {.what = fmt::format("{} threads are to compute, the system gives {}", threads, started),
       .where = "cpu",
       .expected = fmt::format("`ulimit -u`, a container's limit of processes, memory and "
                               "`ulimit -v` that allow {} threads",
                               threads),
       .next = "raise the limit (`exp doctor --look` tells them)"});
}

// The kernel gives any amount and ends the program when it is written.
void RequireRoom(size_t bytes, const DeviceMemory& memory) {
  constexpr size_t kSmall = size_t{16} << 20;
  if (bytes < kSmall || memory.total_bytes == 0 || bytes <= memory.free_bytes) return;
  throw JobError(
      {.what = fmt::format("mem lim: {} MiB more are needed, {} MiB of {} MiB are free",
                           bytes >> 20, memory.free_bytes >> 20, memory.total_bytes >> 20),
       .where = "cpu",
       .next = "a smaller batch, or more memory (`exp doctor` tells the limits)"});
}

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options)
      : rewrites_(options.step_passes), passes_(CpuPasses(options)) {
    context_.threads = options.threads > 0 ? options.threads : UsableCpus();
    RequireThreads(context_.threads);
    description_ = fmt::format("cpu, {} threads", context_.threads);
  }
  const std::string& name() const override { return name_; }
  const std::string& description() const override { return description_; }
  bool is_cuda() const override { return false; }
  StepPasses step_passes() const override { return passes_; }
  std::vector<std::string> PlanNotes() const override {
    if (!rewrites_) return {};
    return {kStepPassesNote + StepPassesText(passes_)};
  }

  std::unique_ptr<Kernel> CreateKernel(const Graph& g, const Op& op) override {
    // oneDNN doesn't look whether it got memory for the code that it makes.
    if (AddressesLimited()) RequireRoom(kCodeBytes, Memory());
    return cpu::MakeKernel(context_, g, op);
  }
  std::unique_ptr<Buffer> Allocate(size_t bytes) override {
    RequireRoom(bytes, Memory());
    return std::make_unique<HostBuffer>(bytes);
  }
  DeviceMemory Memory() const override {
    MemoryRoom room = UsableMemory();
    return {room.free_bytes, room.total_bytes};
  }
  void Upload(void* device, const void* host, size_t bytes) override {
    std::memcpy(device, host, bytes);
  }
  void Download(void* host, const void* device, size_t bytes) override {
    std::memcpy(host, device, bytes);
  }
  std::unique_ptr<PendingRead> DownloadAsync(const void* device, size_t bytes) override {
    return std::make_unique<CopiedRead>(device, bytes);
  }
  std::unique_ptr<Recording> Record(std::function<void()> body) override {
    return std::make_unique<FunctionRecording>(std::move(body));
  }
  void Synchronize() override {}
  std::vector<double> TimeEach(size_t count, const std::function<void(size_t)>& body) override {
    std::vector<double> milliseconds;
    for (size_t i = 0; i < count; ++i) {
      auto start = std::chrono::steady_clock::now();
      body(i);
      std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      milliseconds.push_back(took.count());
    }
    return milliseconds;
  }

 private:
  cpu::Context context_;
  bool rewrites_;
  StepPasses passes_;
  std::string name_ = "cpu";
  std::string description_;
};

}  // namespace

CpuBf16 CpuBf16Support() { return cpu::Bf16Support(); }

std::unique_ptr<Backend> CreateCpuBackend(const CpuOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

std::unique_ptr<Backend> CreateCpuBackend(int threads) {
  return CreateCpuBackend(CpuOptions{.threads = threads, .plans = {}});
}

}  // namespace xp::graph
