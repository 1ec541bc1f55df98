// cuDNN, opened when the CUDA backend is asked for: the program starts without it.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

struct cudnnContext;  // cudnnHandle_t is a pointer to it

namespace xp::graph::cuda {

// Opens libcudnn.so.9 (EXP_CUDNN names another file; else as the loader finds it, else in CUDA's
// usual folders), once a process. Throws UsageError when it is missing, or not version 9.
struct CudnnLibrary {
  void* handle = nullptr;  // of dlopen
  size_t version = 0;      // 91900
  std::string path;
  std::string version_text() const;  // "9.19.0"
};
const CudnnLibrary& OpenCudnn();

// A cuDNN handle whose work goes to `stream`. Throws UsageError where cuDNN and the driver, or
// cuDNN's own parts, don't fit together.
class CudnnHandle {
 public:
  explicit CudnnHandle(cudaStream_t stream);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;
  cudnnContext* get() const { return handle_; }

 private:
  cudnnContext* handle_ = nullptr;
};

}  // namespace xp::graph::cuda
