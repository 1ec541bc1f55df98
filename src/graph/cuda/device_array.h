// A few values in device memory that belong to one kernel: constants, tables, counters. Made when
// the kernel is created; a step allocates nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "src/graph/cuda/check.h"

namespace xp::graph::cuda {

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) {
    if (values.empty()) return;
    const size_t bytes = values.size() * sizeof(T);
    Check(cudaMalloc(&data_, bytes), "allocating an operation's constants");
    cudaError_t error = cudaMemcpy(data_, values.data(), bytes, cudaMemcpyHostToDevice);
    // The copy of pageable memory may still be on its way; the backend's stream doesn't wait for
    // it.
    if (error == cudaSuccess) error = cudaStreamSynchronize(nullptr);
    if (error != cudaSuccess) {
      cudaFree(data_);
      ThrowCudaError(error, "copying an operation's constants");
    }
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
};

// Counters of blocks that have finished, 0 between launches.
class BlockCounters : public DeviceArray<unsigned> {
 public:
  explicit BlockCounters(int count)
      : DeviceArray<unsigned>(std::vector<unsigned>(static_cast<size_t>(count))) {}
};

}  // namespace xp::graph::cuda
