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

namespace {

class NormJoin : public Kernel {
 public:
  NormJoin(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        type_(InputOf(g, op, 0).dtype),
        split_(SplitRows(AsRows(InputOf(g, op, 0)))),
        relu_(std::get<NormAttrs>(op.attrs).relu),
        other_(HasInput(op, 5)),
        residual_(HasInput(op, 10)),
        gate_(HasInput(op, 11)),
        image_rows_(gate_ ? split_.rows / std::max<int64_t>(1, InputOf(g, op, 11).shape.at(0)) : 1),
        mask_(HasOutput(op, 1)) {}

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>(2 * split_.channels + NormApplyFloats(threads_, split_)) *
           sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    const int64_t channels = split_.channels;
    auto* scale = static_cast<float*>(args.workspace);
    NormApply apply;
    // The order of the sum is that of a norm with the first one's result as its residual.
    const size_t last = other_ ? 5 : 0;
    if (other_ || !gate_) apply.first = Branch(args, last, scale);
    if (other_ || gate_) apply.second = Branch(args, 0, scale + channels);
    if (gate_) {
      apply.gate = {type_, args.in[11]};
      apply.gate_rows = image_rows_;
    }
    if (residual_) apply.residual = {type_, args.in[10]};
    apply.relu = relu_;
    apply.y = {type_, args.out[0], split_.elements()};
    apply.scratch = scale + 2 * channels;
    apply.mask = mask_ ? args.Out<uint8_t>(1) : nullptr;
    RunNormApply(threads_, split_, apply);
  }

 private:
  NormBranch Branch(const KernelArgs& args, size_t branch, float* slopes) const {
    const float *scale = args.In<float>(branch + 1), *invstd = args.In<float>(branch + 4);
    for (int64_t c = 0; c < split_.channels; ++c) slopes[c] = scale[c] * invstd[c];
    return {
        {type_, args.in[branch]}, args.In<float>(branch + 3), slopes, args.In<float>(branch + 2)};
  }

  int threads_;
  DType type_;
  RowSplit split_;
  bool relu_, other_, residual_, gate_;
  int64_t image_rows_;
  bool mask_;
};

class JoinedGradSums : public Kernel {
 public:
  JoinedGradSums(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        type_(InputOf(g, op, kSumsDy).dtype),
        split_(SplitRows(AsRows(InputOf(g, op, kSumsDy)))),
        mask_(HasInput(op, 0)) {
    while (dys_ < kSumsMostDys && HasInput(op, kSumsDy + dys_)) ++dys_;
    half_ = LastIsHalf(g, op, kSumsDy, kSumsMostDys);
    if (half_) {
      const Shape& whole = InputOf(g, op, kSumsDy).shape;
      even_.height = whole.at(1);
      even_.width = whole.at(2);
    }
    for (size_t i = 0; i < 2; ++i) x_[i] = HasInput(op, kSumsBranch[i]);
    for (size_t i = 0; i < out_.size(); ++i) out_[i] = HasOutput(op, i);
  }

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>(GradSumFloats(threads_, split_) + 2 * split_.channels) *
           sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    NormGradSums sums;
    const size_t whole = half_ ? dys_ - 1 : dys_;
    for (size_t i = 0; i < whole; ++i) sums.rows.dy[i] = {type_, args.in[kSumsDy + i]};
    sums.rows.even = even_;
    if (half_) sums.rows.even.values = {type_, args.in[kSumsDy + whole]};
    sums.rows.mask = mask_ ? args.In<uint8_t>(0) : nullptr;
    sums.rows.target = {type_, args.out[0], split_.elements()};
    Branch(args, 0, sums);
    // The second branch reads what the first pass made.
    sums.rows = {{InValues(type_, args.out[0])}, nullptr, {}};
    if (x_[1] || out_[kSumsBranchResult[1]]) Branch(args, 1, sums);
  }

 private:
  void Branch(const KernelArgs& args, size_t branch, NormGradSums sums) const {
    const int64_t channels = split_.channels;
    const size_t in = kSumsBranch[branch], out = kSumsBranchResult[branch];
    sums.x = {};
    if (x_[branch]) sums.x = {type_, args.in[in]};
    sums.mean = x_[branch] ? args.In<float>(in + 2) : nullptr;
    sums.sum = static_cast<float*>(args.workspace);
    sums.product = sums.sum + channels;
    sums.scratch = sums.product + channels;
    RunNormGradSums(threads_, split_, sums);
    const float *sum = sums.sum, *product = sums.product;
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
  DType type_;
  RowSplit split_;
  bool mask_, half_ = false;
  EvenPixels even_;  // the size
  size_t dys_ = 0;
  std::array<bool, 2> x_{};
  std::array<bool, 7> out_{};
};

class NormGradApply : public Kernel {
 public:
  NormGradApply(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        type_(InputOf(g, op, 0).dtype),
        split_(SplitRows(AsRows(InputOf(g, op, 0)))) {}

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>(3 * threads_ * BlockFloats(split_.channels)) * sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    const int64_t channels = split_.channels, block = BlockFloats(channels);
    const InValues g(type_, args.in[0]), x(type_, args.in[1]);
    const OutValues dx(type_, args.out[0], split_.elements());
    ParallelFor(threads_, split_.chunks, [&](int64_t chunk) {
      float* scratch = static_cast<float*>(args.workspace) + 3 * omp_get_thread_num() * block;
      ForMaskedBlocks(split_, chunk, {{g}, nullptr, {}}, scratch,
                      [&](int64_t begin, int64_t end, const float* rows) {
                        const int64_t at = begin * channels, n = (end - begin) * channels;
                        float* out = dx.Place(at, scratch + block);
                        ApplyFactors(rows, x.Floats(at, n, scratch + 2 * block), args.In<float>(2),
                                     end - begin, channels, out);
                        dx.Put(at, n, out);
                      });
    });
  }

 private:
  int threads_;
  DType type_;
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
