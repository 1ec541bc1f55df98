#include "src/graph/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "src/graph/cuda/check.h"

namespace xp::graph::cuda {
namespace {

constexpr size_t kDirect = size_t{256} << 20;  // larger ones are rare (weights): copied directly
constexpr size_t kSmallest = 4096;
constexpr size_t kInFlight = 2;
constexpr uint64_t kIdleUploads = 256;  // a slot unused for that many uploads is given back

}  // namespace

PinnedMemory::PinnedMemory(size_t bytes) : bytes_(bytes) {
  Check(cudaMallocHost(&data_, bytes), "locking host memory for copies");
}
PinnedMemory::~PinnedMemory() { cudaFreeHost(data_); }

Event::Event(unsigned flags) {
  Check(cudaEventCreateWithFlags(&event_, flags), "creating an event");
}
Event::~Event() { cudaEventDestroy(event_); }

struct Uploader::Slot {
  explicit Slot(size_t bytes) : host(bytes) {
    Check(cudaMalloc(&device, bytes), "allocating a staging buffer");
  }
  ~Slot() { cudaFree(device); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  PinnedMemory host;
  void* device = nullptr;
  Event arrived;  // in the device slot
  Event done;     // in the target: the slot is free again
  uint64_t last_use = 0;
};

Uploader::Uploader(cudaStream_t compute) : compute_(compute) {
  Check(cudaStreamCreateWithFlags(&copy_, cudaStreamNonBlocking), "creating the copy stream");
}

Uploader::~Uploader() {
  cudaStreamSynchronize(copy_);
  slots_.clear();
  cudaStreamDestroy(copy_);
}

void Uploader::DropIdle() {
  std::erase_if(slots_, [&](const auto& slot) { return slot->last_use + kIdleUploads < uploads_; });
}

Uploader::Slot* Uploader::Acquire(size_t bytes) {
  size_t capacity = std::max(kSmallest, bytes);
  Slot* oldest = nullptr;
  size_t fitting = 0;
  for (auto& slot : slots_) {
    // A slot much larger than needed stays for the large inputs.
    if (slot->host.bytes() < capacity || slot->host.bytes() / 2 > capacity) continue;
    ++fitting;
    cudaError_t state = cudaEventQuery(slot->done.get());
    if (state == cudaSuccess) return slot.get();
    if (state != cudaErrorNotReady) Check(state, "waiting for an upload");
    if (oldest == nullptr || slot->last_use < oldest->last_use) oldest = slot.get();
  }
  // Several inputs of one size may belong to a step: the limit is on bytes, not on slots of small
  // inputs.
  if (fitting < kInFlight || capacity <= (size_t{1} << 20)) {
    DropIdle();
    slots_.push_back(std::make_unique<Slot>(capacity));
    return slots_.back().get();
  }
  Check(cudaEventSynchronize(oldest->done.get()), "waiting for an upload");
  return oldest;
}

void Uploader::Upload(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  if (bytes > kDirect) {
    // From pageable memory this returns once the source was read.
    Check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, compute_),
          "copying to the device");
    Check(cudaStreamSynchronize(compute_), "copying to the device");
    return;
  }
  Slot* slot = Acquire(bytes);
  slot->last_use = ++uploads_;
  std::memcpy(slot->host.data(), host, bytes);
  // The slot is free, so its last copy on the compute stream is done: no wait needed here.
  Check(cudaMemcpyAsync(slot->device, slot->host.data(), bytes, cudaMemcpyHostToDevice, copy_),
        "copying to the device");
  Check(cudaEventRecord(slot->arrived.get(), copy_), "recording an event");
  Check(cudaStreamWaitEvent(compute_, slot->arrived.get(), 0), "ordering a copy");
  Check(cudaMemcpyAsync(device, slot->device, bytes, cudaMemcpyDeviceToDevice, compute_),
        "copying on the device");
  Check(cudaEventRecord(slot->done.get(), compute_), "recording an event");
}

struct Downloader::Pool {
  struct Entry {
    explicit Entry(size_t bytes) : memory(bytes) {}
    PinnedMemory memory;
    Event event;
  };
  std::unique_ptr<Entry> Take(size_t bytes) {
    for (auto& entry : free) {
      if (entry->memory.bytes() >= bytes &&
          entry->memory.bytes() / 2 <= std::max(bytes, kSmallest)) {
        std::unique_ptr<Entry> taken = std::move(entry);
        entry = std::move(free.back());
        free.pop_back();
        return taken;
      }
    }
    return std::make_unique<Entry>(std::max(bytes, kSmallest));
  }
  void Give(std::unique_ptr<Entry> entry) {
    constexpr size_t kKept = 32;
    if (free.size() < kKept) free.push_back(std::move(entry));
  }
  std::vector<std::unique_ptr<Entry>> free;
};

class Downloader::Read : public PendingRead {
 public:
  Read(std::shared_ptr<Pool> pool, std::unique_ptr<Pool::Entry> entry)
      : pool_(std::move(pool)), entry_(std::move(entry)) {}
  ~Read() override {
    cudaEventSynchronize(entry_->event.get());  // the device may still write into it
    pool_->Give(std::move(entry_));
  }
  Read(const Read&) = delete;
  Read& operator=(const Read&) = delete;
  const void* Wait() override {
    Check(cudaEventSynchronize(entry_->event.get()), "running a step");
    return entry_->memory.data();
  }

 private:
  std::shared_ptr<Pool> pool_;
  std::unique_ptr<Pool::Entry> entry_;
};

std::unique_ptr<PendingRead> Downloader::Start(const void* device, size_t bytes) {
  if (!pool_) pool_ = std::make_shared<Pool>();
  std::unique_ptr<Pool::Entry> entry = pool_->Take(bytes);
  Check(cudaMemcpyAsync(entry->memory.data(), device, bytes, cudaMemcpyDeviceToHost, compute_),
        "copying to the host");
  Check(cudaEventRecord(entry->event.get(), compute_), "recording an event");
  return std::make_unique<Read>(pool_, std::move(entry));
}

}  // namespace xp::graph::cuda
