// How a CUDA kernel joins: its launcher lives in kernels/<op>.{h,cu}, a Kernel class that holds the
// shapes calls it in Run, and the registry of its family (nn_, detection_ or update_registry.cpp)
// makes that class. Everything is enqueued on Context::stream: no host wait, no allocation, so that
// the backend can capture a step into a CUDA graph. Sums are made in a fixed order (no float
// atomics): two runs give the same bits.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "exp/graph/backend.h"
#include "exp/graph/graph.h"

namespace xp::graph::cuda {

class Dnn;           // cuDNN's handle and plans, dnn.h
class SharedCublas;  // cublas_library.h

struct Device {
  int ordinal = 0;
  std::string name;          // "NVIDIA H200"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  size_t shared_memory_optin = 0;  // the most dynamic shared memory a block may ask for
  size_t l2_bytes = 0;
};

// Owned by the backend, which outlives its kernels: they may keep a reference.
struct Context {
  cudaStream_t stream = nullptr;
  Device device;
  CudaOptions options;
  Dnn* dnn = nullptr;
  SharedCublas* cublas = nullptr;
};

// Each makes the kernels of its family and returns null for other ops. Throws UsageError for a type
// or shape that it can't do.
std::unique_ptr<Kernel> MakeDnnKernel(Context&, const Graph&, const Op&);  // convolution, linear
std::unique_ptr<Kernel> MakeNnKernel(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeDetectionKernel(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeUpdateKernel(Context&, const Graph&, const Op&);

}  // namespace xp::graph::cuda
