// Constants of a kernel in device memory, uploaded when it is made.
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
    size_t bytes = values.size() * sizeof(T);
    Check(cudaMalloc(&data_, bytes), "allocating an operation's constants");
    cudaError_t error = cudaMemcpy(data_, values.data(), bytes, cudaMemcpyHostToDevice);
    if (error != cudaSuccess) {
      cudaFree(data_);
      ThrowCudaError(error, "copying an operation's constants");
    }
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  const T* data() const { return static_cast<const T*>(data_); }

 private:
  void* data_ = nullptr;
};

}  // namespace xp::graph::cuda
