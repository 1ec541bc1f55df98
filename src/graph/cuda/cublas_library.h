// cuBLAS, opened at run time (cuDNN needs it anyway), for products whose result is fp32 while the
// factors are of 16 bits. Only what is used is declared here, so that no header of it is needed to
// build; the functions and numbers are the same in cuBLAS 12 and 13.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "exp/graph/tensor.h"

namespace xp::graph::cuda {

// Is there a cuBLAS? If not, `why` says what was tried.
bool CublasAvailable(std::string* why);

// One handle on one stream. Row-major matrices, fp32 results. Each product of given sizes uses the
// same kernel every time and adds in a fixed order, as long as it gets the same workspace.
class Cublas {
 public:
  explicit Cublas(cudaStream_t stream);  // throws UsageError
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  // out f32 [m, n] = x^T y, x [rows, m], y [rows, n], both of type `type`. tf32: fp32 factors on
  // tensor cores.
  void TransposedProduct(const void* x, int m, const void* y, int n, int64_t rows, DType type,
                         bool tf32, float* out, void* workspace);
  // out [m, n] = x y, x [m, k], y [k, n], all fp32.
  void Product(const float* x, const float* y, int m, int n, int k, float* out, void* workspace);

 private:
  void Run(bool transpose_y, int m, int n, int64_t k, const void* x, int ldx, const void* y,
           int ldy, int type, int compute, float* out, void* workspace);

  void* handle_ = nullptr;
};

// Made when first asked for: most graphs have no use for it.
class SharedCublas {
 public:
  explicit SharedCublas(cudaStream_t stream) : stream_(stream) {}
  Cublas& Get() {
    if (!made_) made_ = std::make_unique<Cublas>(stream_);
    return *made_;
  }

 private:
  cudaStream_t stream_;
  std::unique_ptr<Cublas> made_;
};

}  // namespace xp::graph::cuda
