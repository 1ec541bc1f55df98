// The CPU as a device: memory is host memory, a launch runs at once.
#include "exp/graph/backend.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>

#include "exp/base/error.h"
#include "exp/graph/cpu.h"
#include "exp/graph/memory_plan.h"
#include "src/graph/cpu/onednn.h"
#include "src/graph/cpu/registry.h"

namespace xp::graph {
namespace {

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

// A cgroup v2 limit, or UINT64_MAX.
uint64_t CgroupLimit() {
  std::ifstream in("/sys/fs/cgroup/memory.max");
  uint64_t limit = 0;
  return in >> limit ? limit : UINT64_MAX;
}

uint64_t CgroupUsed() {
  std::ifstream in("/sys/fs/cgroup/memory.current");
  uint64_t used = 0;
  return in >> used ? used : 0;
}

uint64_t MeminfoBytes(const std::string& key) {
  std::ifstream in("/proc/meminfo");
  std::string name, unit;
  uint64_t kib = 0;
  while (in >> name >> kib) {
    if (name == key + ":") return kib * 1024;
    std::getline(in, unit);
  }
  return 0;
}

// In PlanNotes(), as the CUDA backend writes it: a reproduction rewrites its steps as the run did.
const std::string kStepPassesNote = "step passes = ";

// The passes that spare memory traffic here. The others trade it for arithmetic, or their kernels
// are references.
StepPasses CpuPasses(const CpuOptions& options) {
  if (!options.step_passes) return {};
  const StepPasses all{.sums = true, .pairs = true};
  if (options.plans.empty()) return AllowedStepPasses(all);
  StepPasses passes;
  for (const std::string& note : options.plans) {
    if (!note.starts_with(kStepPassesNote)) continue;
    const StepPasses recorded = RecordedStepPasses(all, note.substr(kStepPassesNote.size()));
    passes.sums = recorded.sums;
    passes.pairs = recorded.pairs;
  }
  return passes;
}

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options)
      : rewrites_(options.step_passes), passes_(CpuPasses(options)) {
    int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    context_.threads = options.threads > 0 ? options.threads : cores;
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
    return cpu::MakeKernel(context_, g, op);
  }
  std::unique_ptr<Buffer> Allocate(size_t bytes) override {
    return std::make_unique<HostBuffer>(bytes);
  }
  DeviceMemory Memory() const override {
    uint64_t total = MeminfoBytes("MemTotal"), free = MeminfoBytes("MemAvailable");
    uint64_t limit = CgroupLimit();
    if (limit < total) {
      uint64_t used = CgroupUsed();
      total = limit;
      free = std::min(free, limit > used ? limit - used : 0);
    }
    return {free, total};
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
