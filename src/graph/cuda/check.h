// CUDA's error codes as JobErrors. An error may belong to an earlier launch; a lost device (a
// sticky error) is told apart from a call that merely failed.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace xp::graph::cuda {

[[noreturn]] void ThrowCudaError(cudaError_t error, const std::string& doing);

// `doing` completes "failed while ...": "copying an input to the device".
inline void Check(cudaError_t error, const char* doing) {
  if (error != cudaSuccess) ThrowCudaError(error, doing);
}

// After a kernel launch: a bad launch configuration shows here, a fault inside the kernel later.
inline void CheckLaunch(const char* kernel) {
  if (cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    ThrowCudaError(error, std::string("launching ") + kernel);
  }
}

}  // namespace xp::graph::cuda
