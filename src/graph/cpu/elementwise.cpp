// Sums, ReLU, sigmoid and conversions: one pass over memory, each piece on one thread.
#include <algorithm>
#include <cmath>
#include <string>

#include "exp/base/error.h"
#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"
#include "src/graph/cpu/values.h"

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

// Elements at once: with their operands in the first-level cache.
constexpr int64_t kBlock = 2048;

// body(begin, count, scratch) over [0, n) in blocks; `scratch` holds `Blocks` blocks.
template <int Blocks, typename Body>
void ForBlocks(int threads, int64_t n, const Body& body) {
  ParallelRanges(threads, n, kGrain, [&](int64_t begin, int64_t end) {
    float scratch[Blocks * kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
      body(at, std::min(kBlock, end - at), scratch);
    }
  });
}

class Add : public Kernel {
 public:
  Add(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        type_(OutputOf(g, op, 0).dtype),
        inputs_(op.inputs.size()),
        n_(OutputOf(g, op, 0).elements()) {
    if (const auto* attrs = std::get_if<ReluAttrs>(&op.attrs)) relu_ = attrs->relu;
  }

  void Run(const KernelArgs& args) override {
    const OutValues out(type_, args.out[0], n_);
    ForBlocks<3>(threads_, n_, [&](int64_t at, int64_t n, float* scratch) {
      const auto in = [&](size_t k, float* wide) {
        return InValues(type_, args.in[k]).Floats(at, n, wide);
      };
      float* y = out.Place(at, scratch);
      AddTwo(in(0, scratch + kBlock), in(1, scratch + 2 * kBlock), y, n);
      for (size_t k = 2; k < inputs_; ++k) AddTo(in(k, scratch + kBlock), y, n);
      if (relu_) ReluRange(y, y, n);
      out.Put(at, n, y);
    });
  }

 private:
  int threads_;
  DType type_;
  size_t inputs_;
  int64_t n_;
  bool relu_ = false;
};

using UnaryRange = void (*)(const float*, float*, int64_t);
using BinaryRange = void (*)(const float*, const float*, float*, int64_t);

class Unary : public Kernel {
 public:
  Unary(const Context& context, const Graph& g, const Op& op, UnaryRange range)
      : threads_(context.threads),
        type_(OutputOf(g, op, 0).dtype),
        n_(OutputOf(g, op, 0).elements()),
        range_(range) {}

  void Run(const KernelArgs& args) override {
    const InValues x(type_, args.in[0]);
    const OutValues out(type_, args.out[0], n_);
    ForBlocks<2>(threads_, n_, [&](int64_t at, int64_t n, float* scratch) {
      float* y = out.Place(at, scratch);
      range_(x.Floats(at, n, scratch + kBlock), y, n);
      out.Put(at, n, y);
    });
  }

 private:
  int threads_;
  DType type_;
  int64_t n_;
  UnaryRange range_;
};

class Binary : public Kernel {
 public:
  Binary(const Context& context, const Graph& g, const Op& op, BinaryRange range)
      : threads_(context.threads),
        type_(OutputOf(g, op, 0).dtype),
        n_(OutputOf(g, op, 0).elements()),
        range_(range) {}

  void Run(const KernelArgs& args) override {
    const InValues a(type_, args.in[0]), b(type_, args.in[1]);
    const OutValues out(type_, args.out[0], n_);
    ForBlocks<3>(threads_, n_, [&](int64_t at, int64_t n, float* scratch) {
      float* y = out.Place(at, scratch);
      range_(a.Floats(at, n, scratch + kBlock), b.Floats(at, n, scratch + 2 * kBlock), y, n);
      out.Put(at, n, y);
    });
  }

 private:
  int threads_;
  DType type_;
  int64_t n_;
  BinaryRange range_;
};

bool IsFloat(DType type) {
  return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16;
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
    const InValues x(from_, args.in[0]);
    const OutValues out(to_, args.out[0], n_);
    ForBlocks<2>(threads_, n_, [&](int64_t at, int64_t n, float* scratch) {
      const float* values = x.Floats(at, n, scratch);
      float* y = out.Place(at, scratch + kBlock);
      if (y != scratch + kBlock) std::copy(values, values + n, y);
      out.Put(at, n, y == scratch + kBlock ? values : y);
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
