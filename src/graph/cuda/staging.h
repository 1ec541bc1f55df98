// Copies between host and device that overlap with computing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "exp/graph/backend.h"

namespace xp::graph::cuda {

// A host buffer that the device can read and write directly (page-locked).
class PinnedMemory {
 public:
  explicit PinnedMemory(size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDisableTiming);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Uploads ahead of need. A copy goes host -> page-locked slot (by the caller's thread, so that its
// buffer is free again), slot -> device slot (on a stream of its own, while the device computes),
// device slot -> target (on the compute stream, between two steps, at device memory speed). Slots
// are reused; up to two uploads of a size may be on their way before a third one waits.
class Uploader {
 public:
  explicit Uploader(cudaStream_t compute);
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  void Upload(void* device, const void* host, size_t bytes);

 private:
  struct Slot;
  Slot* Acquire(size_t bytes);
  void DropIdle();

  cudaStream_t compute_, copy_ = nullptr;
  std::vector<std::unique_ptr<Slot>> slots_;
  uint64_t uploads_ = 0;
};

// Reads that the host waits for later.
class Downloader {
 public:
  explicit Downloader(cudaStream_t compute) : compute_(compute) {}
  std::unique_ptr<PendingRead> Start(const void* device, size_t bytes);

 private:
  struct Pool;
  class Read;
  cudaStream_t compute_;
  std::shared_ptr<Pool> pool_;  // buffers of reads that are done, for later ones
};

}  // namespace xp::graph::cuda
