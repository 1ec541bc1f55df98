// The CPU as a device: memory is host memory, a launch runs at once.
#include "exp/graph/backend.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>

#include "exp/base/error.h"
#include "exp/graph/memory_plan.h"
#include "src/graph/cpu/registry.h"

namespace xp::graph {
namespace {

class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(size_t bytes) : bytes_(bytes) {
    size_t rounded = (bytes + kTensorAlignment) / kTensorAlignment * kTensorAlignment;
    data_ = std::aligned_alloc(kTensorAlignment, rounded);
    if (data_ == nullptr) {
      throw JobError({.what = fmt::format("mem lim: {} bytes of host memory can't be had", bytes),
                      .where = "cpu"});
    }
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

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int threads) {
    int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    context_.threads = threads > 0 ? threads : cores;
    description_ = fmt::format("cpu, {} threads", context_.threads);
  }
  const std::string& name() const override { return name_; }
  const std::string& description() const override { return description_; }
  bool is_cuda() const override { return false; }

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
  std::string name_ = "cpu";
  std::string description_;
};

}  // namespace

std::unique_ptr<Backend> CreateCpuBackend(int threads) {
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace xp::graph
