// What the parts of exp_kernel_bench share: memory, a bench that times launches, and the parts.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "kernels/element_type.h"
#include "kernels/map_shape.h"

namespace xp::bench {

constexpr auto kType = kernels::ElementType::kBF16;
constexpr size_t kElement = 2;

// Ends the program with CUDA's message.
void Check(cudaError_t error);

// Memory that is handed out set by set; filled with random numbers once.
class Pool {
 public:
  explicit Pool(size_t bytes);
  ~Pool() { cudaFree(data_); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void Reset() { used_ = 0; }
  bool Fits(size_t bytes) const { return used_ + bytes + 4096 <= bytes_; }
  template <typename T = void>
  T* Take(size_t bytes) {
    return reinterpret_cast<T*>(TakeBytes(bytes));
  }

 private:
  char* TakeBytes(size_t bytes);

  void* data_ = nullptr;
  size_t bytes_, used_ = 0;
};

struct Bench {
  Pool pool{size_t{12} << 30};
  cudaStream_t stream = nullptr;
  int multiprocessors = 0;
  double copy_speed = 0;  // TB/s
  std::vector<std::string> wanted;
  unsigned* counters = nullptr;  // zeros

  using Launch = std::function<void()>;
  // `make` takes buffers from the pool and returns a launch of them.
  void Run(const std::string& name, double bytes, const std::function<Launch()>& make);
};

struct Shape {
  const char* model;
  int n, h, w, c;
  int64_t rows() const { return int64_t{n} * h * w; }
  size_t bytes() const { return static_cast<size_t>(rows()) * static_cast<size_t>(c) * kElement; }
  std::string text() const {
    char buffer[80];
    std::snprintf(buffer, sizeof buffer, "%s %dx%dx%dx%d", model, n, h, w, c);
    return buffer;
  }
};

// Batch norms and sums over channels.
void Norms(Bench& b, const Shape& s);
// Passes over whole maps.
void Maps(Bench& b, const Shape& s);
void Pooling(Bench& b, const char* model, const kernels::MapShape& in,
             const kernels::MapShape& out);
void Upsampling(Bench& b);
void Images(Bench& b);
void Classification(Bench& b);
void Stem(Bench& b, const char* model, int n, int h, int w, kernels::ElementType type);
void Conv3x3Wgrads(Bench& b);
void GroupedConvs(Bench& b);
void Updates(Bench& b);

}  // namespace xp::bench
