// oneDNN behind one interface: convolutions and linear layers, forward and both gradients, of maps
// in nhwc and weights in ohwi. Hides the differences between oneDNN 2.x (Debian 12) and 3.x (Ubuntu
// 24.04); no oneDNN header leaks out of onednn.cpp.
//
// oneDNN chooses how it wants convolution weights blocked; Run reorders them on the way (a few per
// cent of the time). All scratch memory is the caller's. Bits are the same from run to run for a
// given number of threads, which is set around both creation and execution whatever OMP_NUM_THREADS
// says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "exp/graph/cpu.h"

namespace xp::graph::cpu {

enum class Direction { kForward, kDataGrad, kWeightGrad };

struct ConvProblem {
  int64_t batch = 0, height = 0, width = 0, in_channels = 0;
  int64_t out_height = 0, out_width = 0, out_channels = 0;
  int64_t kernel_height = 1, kernel_width = 1;
  std::array<int, 2> stride{1, 1}, pad{0, 0}, dilation{1, 1};  // y, x; dilation 1 is dense
  int groups = 1;
  bool bias = false, relu = false;  // forward only
  DType type = DType::kF32;         // of maps and weights; the bias is always f32
};

struct LinearProblem {
  int64_t rows = 0, in_features = 0, out_features = 0;
  bool bias = false, relu = false;  // forward only
  DType type = DType::kF32;
};

class OnednnOp {
 public:
  virtual ~OnednnOp() = default;
  virtual size_t WorkspaceBytes() const = 0;
  // Forward: a = x, b = w, result = y. Data gradient: a = dy, b = w, result = dx. Weight gradient:
  // a = x, b = dy, result = dw. `bias` is null unless the problem has one.
  virtual void Run(const void* a, const void* b, const float* bias, void* result,
                   void* workspace) = 0;
  // oneDNN's name for the code that it chose: "brgconv:avx512_core", "jit:avx2", ...
  virtual const char* Implementation() const = 0;
};

CpuBf16 Bf16Support();

// Null when this machine or this oneDNN has no fast code for the problem in its 16-bit type; in f32
// a problem that oneDNN refuses is a JobError.
std::unique_ptr<OnednnOp> MakeConvolution(const ConvProblem& problem, Direction direction,
                                          int threads);
std::unique_ptr<OnednnOp> MakeProduct(const LinearProblem& problem, Direction direction,
                                      int threads);

}  // namespace xp::graph::cpu
