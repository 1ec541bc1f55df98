// What a device must offer to run a graph: memory, copies and a kernel for each operation.
// src/graph/cpu (oneDNN, the reference) and src/graph/cuda (cuDNN and kernels/) implement it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exp/base/hash.h"
#include "exp/base/stop.h"
#include "exp/graph/graph.h"
#include "exp/graph/step_passes.h"

namespace xp::graph {

// Pointers into the device's memory, in the order of the op's inputs and outputs; null where
// absent.
struct KernelArgs {
  std::span<const void* const> in;
  std::span<void* const> out;
  void* workspace = nullptr;  // WorkspaceBytes() of it, kTensorAlignment aligned, content undefined

  template <typename T>
  const T* In(size_t i) const {
    return static_cast<const T*>(in[i]);
  }
  template <typename T>
  T* Out(size_t i) const {
    return static_cast<T*>(out[i]);
  }
};

// One operation with its shapes fixed. Run may be called many times; results depend on nothing but
// the inputs (for a given number of threads or a given device).
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual size_t WorkspaceBytes() const { return 0; }
  // CPU: done on return. CUDA: enqueued on the backend's compute stream; no host wait, no
  // allocation.
  virtual void Run(const KernelArgs& args) = 0;
};

// Device memory, freed on destruction, zero at first.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() const = 0;
  virtual size_t bytes() const = 0;
};

// A copy to the host on its way.
class PendingRead {
 public:
  virtual ~PendingRead() = default;
  virtual const void* Wait() = 0;  // blocks; the bytes stay valid until destruction
};

// A recorded sequence of kernel launches.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void Launch() = 0;
};

struct DeviceMemory {
  uint64_t free_bytes = 0, total_bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const std::string& name() const = 0;         // "cpu", "cuda:0"
  virtual const std::string& description() const = 0;  // "NVIDIA H200, driver 580.159"
  virtual bool is_cuda() const = 0;

  // What of step_passes.h makes a step faster here. The CPU, the reference, rewrites nothing.
  virtual StepPasses step_passes() const { return {}; }

  // Making a kernel may search for plans, a minute for a large convolution: until it is given null,
  // the flag is looked at meanwhile, and what it stops throws Error of kind kInterrupted.
  virtual void StopAt(StopFlag stop) { stop_ = stop; }
  StopFlag stop() const { return stop_; }

  // Throws UsageError when this backend can't run such an op (a type it lacks).
  virtual std::unique_ptr<Kernel> CreateKernel(const Graph& g, const Op& op) = 0;

  // Throws JobError with bytes asked and free when it doesn't fit.
  virtual std::unique_ptr<Buffer> Allocate(size_t bytes) = 0;
  virtual DeviceMemory Memory() const = 0;

  // The source may be reused on return; the copy is ordered before later launches.
  virtual void Upload(void* device, const void* host, size_t bytes) = 0;
  // Ordered after earlier launches; blocks.
  virtual void Download(void* host, const void* device, size_t bytes) = 0;
  virtual std::unique_ptr<PendingRead> DownloadAsync(const void* device, size_t bytes) = 0;

  // CPU: keeps the function. CUDA: captures what it launches into a CUDA graph.
  virtual std::unique_ptr<Recording> Record(std::function<void()> body) = 0;
  virtual void Synchronize() = 0;
  // Runs body(0) .. body(count - 1) in order; milliseconds of each, on the device's own clock where
  // it has one, in a recording (so without the host's time to launch).
  virtual std::vector<double> TimeEach(size_t count, const std::function<void(size_t)>& body) = 0;

  // What this backend chose by measuring and what decides bits, for the run's record: a line for
  // each cuDNN plan in use, "<operation, type, shape> = <engine and knobs>". Given back through
  // CudaOptions::plans, the same choice is made again.
  virtual std::vector<std::string> PlanNotes() const { return {}; }

 private:
  StopFlag stop_ = nullptr;
};

// `threads` compute threads, 0: all cores that this process may use. The number decides bits.
std::unique_ptr<Backend> CreateCpuBackend(int threads);

struct CudaOptions {
  int device = 0;
  bool tf32 = false;  // convolutions and products of fp32 tensors on tensor cores
  bool deterministic = true;
  std::string plan_cache;  // folder of the cuDNN plan cache; empty: none on disk
  // Plans that must be used (PlanNotes() of an earlier run), whatever the cache says.
  std::vector<std::string> plans;
  int engines_tried = 32;  // at most that many for each way to put a convolution to cuDNN
};
// Throws UsageError saying what is missing (driver, device, cuDNN; versions found and needed).
std::unique_ptr<Backend> CreateCudaBackend(const CudaOptions& options);
// Was the CUDA backend compiled in, and how many devices does the driver show? `reason` says why 0.
bool CudaCompiledIn();
int CudaDeviceCount(std::string* reason);
// Where the device is plugged in, "0000:3B:00.0", by which other programs' numbers of it can be
// found; empty where CUDA tells none.
std::string CudaPciBusId(int device);

}  // namespace xp::graph
