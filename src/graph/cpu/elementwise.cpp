// Sums, ReLU, sigmoid and conversions: one pass over memory, each piece on one thread.
#include <cmath>
#include <string>

#include "exp/base/error.h"
#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"
#include "src/graph/half.h"

namespace xp::graph::cpu {
namespace {

XP_SIMD_CLONES void AddTwo(const float* __restrict a, const float* __restrict b,
                           float* __restrict y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

XP_SIMD_CLONES void AddTo(const float* __restrict a, float* __restrict y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += a[i];
}

// A NaN stays one, as in PyTorch: the comparison is false for it.
XP_SIMD_CLONES void ReluRange(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

XP_SIMD_CLONES void ReluGradRange(const float* __restrict dy, const float* __restrict y,
                                  float* __restrict dx, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

XP_SIMD_CLONES void SigmoidGradRange(const float* __restrict dy, const float* __restrict y,
                                     float* __restrict dx, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * (y[i] * (1.0f - y[i]));
}

void SigmoidRange(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    // exp of a negative number only, so that it never overflows.
    const float e = std::exp(-std::fabs(x[i]));
    const float s = 1.0f / (1.0f + e);
    y[i] = x[i] < 0.0f ? e * s : s;
  }
}

class Add : public Kernel {
 public:
  Add(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads), inputs_(op.inputs.size()), n_(OutputOf(g, op, 0).elements()) {
    if (const auto* attrs = std::get_if<ReluAttrs>(&op.attrs)) relu_ = attrs->relu;
  }

  void Run(const KernelArgs& args) override {
    ParallelRanges(threads_, n_, kGrain, [&](int64_t begin, int64_t end) {
      float* y = args.Out<float>(0) + begin;
      const int64_t n = end - begin;
      AddTwo(args.In<float>(0) + begin, args.In<float>(1) + begin, y, n);
      for (size_t k = 2; k < inputs_; ++k) AddTo(args.In<float>(k) + begin, y, n);
      if (relu_) ReluRange(y, y, n);
    });
  }

 private:
  int threads_;
  size_t inputs_;
  int64_t n_;
  bool relu_ = false;
};

using UnaryRange = void (*)(const float*, float*, int64_t);
using BinaryRange = void (*)(const float*, const float*, float*, int64_t);

class Unary : public Kernel {
 public:
  Unary(const Context& context, const Graph& g, const Op& op, UnaryRange range)
      : threads_(context.threads), n_(OutputOf(g, op, 0).elements()), range_(range) {}

  void Run(const KernelArgs& args) override {
    ParallelRanges(threads_, n_, kGrain, [&](int64_t begin, int64_t end) {
      range_(args.In<float>(0) + begin, args.Out<float>(0) + begin, end - begin);
    });
  }

 private:
  int threads_;
  int64_t n_;
  UnaryRange range_;
};

class Binary : public Kernel {
 public:
  Binary(const Context& context, const Graph& g, const Op& op, BinaryRange range)
      : threads_(context.threads), n_(OutputOf(g, op, 0).elements()), range_(range) {}

  void Run(const KernelArgs& args) override {
    ParallelRanges(threads_, n_, kGrain, [&](int64_t begin, int64_t end) {
      range_(args.In<float>(0) + begin, args.In<float>(1) + begin, args.Out<float>(0) + begin,
             end - begin);
    });
  }

 private:
  int threads_;
  int64_t n_;
  BinaryRange range_;
};

bool IsFloat(DType type) {
  return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16;
}

float Load(DType type, const void* data, int64_t i) {
  if (type == DType::kF32) return static_cast<const float*>(data)[i];
  const uint16_t bits = static_cast<const uint16_t*>(data)[i];
  return type == DType::kBF16 ? Bf16ToFloat(bits) : HalfToFloat(bits);
}

void Store(DType type, void* data, int64_t i, float value) {
  if (type == DType::kF32) {
    static_cast<float*>(data)[i] = value;
  } else {
    static_cast<uint16_t*>(data)[i] =
        type == DType::kBF16 ? FloatToBf16(value) : FloatToHalf(value);
  }
}

class Cast : public Kernel {
 public:
  Cast(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        n_(OutputOf(g, op, 0).elements()),
        from_(InputOf(g, op, 0).dtype),
        to_(OutputOf(g, op, 0).dtype) {
    if (!IsFloat(from_) || !IsFloat(to_)) {
      throw UsageError(
          {.what = std::string("no conversion from ") + DTypeName(from_) + " to " + DTypeName(to_),
           .where = "operation " + op.name,
           .expected = "f32, bf16 or f16 on both sides",
           .next = {}});
    }
  }

  void Run(const KernelArgs& args) override {
    ParallelRanges(threads_, n_, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Store(to_, args.out[0], i, Load(from_, args.in[0], i));
    });
  }

 private:
  int threads_;
  int64_t n_;
  DType from_, to_;
};

}  // namespace

std::unique_ptr<Kernel> MakeAdd(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Add>(context, g, op);
}
std::unique_ptr<Kernel> MakeRelu(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Unary>(context, g, op, ReluRange);
}
std::unique_ptr<Kernel> MakeReluGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Binary>(context, g, op, ReluGradRange);
}
std::unique_ptr<Kernel> MakeSigmoid(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Unary>(context, g, op, SigmoidRange);
}
std::unique_ptr<Kernel> MakeSigmoidGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Binary>(context, g, op, SigmoidGradRange);
}
std::unique_ptr<Kernel> MakeCast(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Cast>(context, g, op);
}

}  // namespace xp::graph::cpu
