// The parts of batch norms as step_passes.h puts them together: two branches applied at once, the
// sums of their gradients with the sum of what flows in, and the gradient of an input.
#include <algorithm>
#include <array>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/norm.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"
#include "src/graph/step_edit.h"

namespace xp::graph::cpu {

// dx = factors[0] * g + (factors[1] * x + factors[2]), a row at a time.
XP_SIMD_CLONES void ApplyFactors(const float* __restrict g, const float* __restrict x,
                                 const float* __restrict factors, int64_t rows, int64_t channels,
                                 float* __restrict dx) {
  const float *a = factors, *b = factors + channels, *c = factors + 2 * channels;
  for (int64_t r = 0; r < rows; ++r) {
    const float *gr = g + r * channels, *xr = x + r * channels;
    float* out = dx + r * channels;
#pragma omp simd
    for (int64_t k = 0; k < channels; ++k) out[k] = a[k] * gr[k] + (b[k] * xr[k] + c[k]);
  }
}

XP_SIMD_CLONES void AddInto(const float* __restrict x, int64_t n, float* __restrict sum) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

namespace {

class NormJoin : public Kernel {
 public:
  NormJoin(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        split_(SplitRows(AsRows(InputOf(g, op, 0)))),
        relu_(std::get<NormAttrs>(op.attrs).relu),
        other_(HasInput(op, 5)),
        residual_(HasInput(op, 10)),
        gate_(HasInput(op, 11)),
        image_rows_(gate_ ? split_.rows / std::max<int64_t>(1, InputOf(g, op, 11).shape.at(0)) : 1),
        mask_(HasOutput(op, 1)) {}

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>(2 * split_.channels + threads_ * BlockFloats(split_.channels)) *
           sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    const int64_t channels = split_.channels;
    auto* scale = static_cast<float*>(args.workspace);
    NormApply apply;
    // The order of the sum is that of a norm with the first one's result as its residual.
    const size_t last = other_ ? 5 : 0;
    if (other_ || !gate_) {
      Slopes(args, last, scale);
      apply.x = args.In<float>(last);
      apply.scale = scale;
      apply.bias = args.In<float>(last + 2);
      apply.mean = args.In<float>(last + 3);
    }
    if (gate_) {
      apply.other_gate = args.In<float>(11);
      apply.gate_rows = image_rows_;
    }
    if (other_ || gate_) {
      Slopes(args, 0, scale + channels);
      apply.other_x = args.In<float>(0);
      apply.other_scale = scale + channels;
      apply.other_bias = args.In<float>(2);
      apply.other_mean = args.In<float>(3);
      apply.scratch = scale + 2 * channels;
    }
    apply.residual = residual_ ? args.In<float>(10) : nullptr;
    apply.relu = relu_;
    apply.y = args.Out<float>(0);
    apply.mask = mask_ ? args.Out<uint8_t>(1) : nullptr;
    RunNormApply(threads_, split_, apply);
  }

 private:
  void Slopes(const KernelArgs& args, size_t branch, float* slopes) const {
    const float *scale = args.In<float>(branch + 1), *invstd = args.In<float>(branch + 4);
    for (int64_t c = 0; c < split_.channels; ++c) slopes[c] = scale[c] * invstd[c];
  }

  int threads_;
  RowSplit split_;
  bool relu_, other_, residual_, gate_;
  int64_t image_rows_;
  bool mask_;
};

class JoinedGradSums : public Kernel {
 public:
  JoinedGradSums(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        split_(SplitRows(AsRows(InputOf(g, op, kSumsDy)))),
        mask_(HasInput(op, 0)) {
    while (dys_ < kSumsMostDys && HasInput(op, kSumsDy + dys_)) ++dys_;
    for (size_t i = 0; i < 2; ++i) x_[i] = HasInput(op, kSumsBranch[i]);
    for (size_t i = 0; i < out_.size(); ++i) out_[i] = HasOutput(op, i);
  }

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>(GradSumFloats(threads_, split_) + 2 * split_.channels) *
           sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    Add(args);
    for (size_t branch = 0; branch < 2; ++branch) {
      if (x_[branch] || out_[kSumsBranchResult[branch]]) Sums(args, branch);
    }
  }

 private:
  // g: the sum of the gradients, masked.
  void Add(const KernelArgs& args) const {
    const int64_t channels = split_.channels;
    float* g = args.Out<float>(0);
    ParallelFor(threads_, split_.chunks, [&](int64_t chunk) {
      const int64_t at = split_.Begin(chunk) * channels, n = split_.RowsOf(chunk) * channels;
      std::copy(args.In<float>(kSumsDy) + at, args.In<float>(kSumsDy) + at + n, g + at);
      for (size_t i = 1; i < dys_; ++i) AddInto(args.In<float>(kSumsDy + i) + at, n, g + at);
      if (mask_) ApplyMask(g + at, args.In<uint8_t>(0) + at / 8, n, g + at);
    });
  }

  void Sums(const KernelArgs& args, size_t branch) const {
    const int64_t channels = split_.channels;
    const size_t in = kSumsBranch[branch], out = kSumsBranchResult[branch];
    auto* sum = static_cast<float*>(args.workspace);
    float* product = sum + channels;
    NormGradSums sums;
    sums.rows = {args.Out<float>(0), nullptr, nullptr};
    // Without x only the sum is asked for; g in its place keeps one code path.
    sums.x = x_[branch] ? args.In<float>(in) : args.Out<float>(0);
    sums.mean = x_[branch] ? args.In<float>(in + 2) : sums.x;
    sums.sum = sum;
    sums.product = product;
    sums.scratch = product + channels;
    RunNormGradSums(threads_, split_, sums);
    if (out_[out]) std::copy(sum, sum + channels, args.Out<float>(out));
    if (!x_[branch]) return;
    const float *scale = args.In<float>(in + 1), *mean = args.In<float>(in + 2),
                *invstd = args.In<float>(in + 3);
    const float n = static_cast<float>(split_.rows);
    for (int64_t c = 0; c < channels; ++c) {
      const float dscale = product[c] * invstd[c];
      if (out_[out + 1]) args.Out<float>(out + 1)[c] = dscale;
      if (!out_[out + 2]) continue;
      float* factors = args.Out<float>(out + 2);
      const float a = scale[c] * invstd[c], b = -a * invstd[c] * (dscale / n);
      factors[c] = a;
      factors[channels + c] = b;
      factors[2 * channels + c] = -a * (sum[c] / n) - b * mean[c];
    }
  }

  int threads_;
  RowSplit split_;
  bool mask_;
  size_t dys_ = 0;
  std::array<bool, 2> x_{};
  std::array<bool, 7> out_{};
};

class NormGradApply : public Kernel {
 public:
  NormGradApply(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads), split_(SplitRows(AsRows(InputOf(g, op, 0)))) {}

  void Run(const KernelArgs& args) override {
    ParallelFor(threads_, split_.chunks, [&](int64_t chunk) {
      const int64_t at = split_.Begin(chunk) * split_.channels;
      ApplyFactors(args.In<float>(0) + at, args.In<float>(1) + at, args.In<float>(2),
                   split_.RowsOf(chunk), split_.channels, args.Out<float>(0) + at);
    });
  }

 private:
  int threads_;
  RowSplit split_;
};

}  // namespace

std::unique_ptr<Kernel> MakeNormJoin(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<NormJoin>(context, g, op);
}
std::unique_ptr<Kernel> MakeNormGradSums(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<JoinedGradSums>(context, g, op);
}
std::unique_ptr<Kernel> MakeNormGradApply(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<NormGradApply>(context, g, op);
}

}  // namespace xp::graph::cpu
