// Batch normalisation with fixed statistics (evaluation, frozen layers) and its gradient.
#include <cmath>

#include "src/graph/cpu/channel_sums.h"
#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/norm.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"

namespace xp::graph::cpu {

XP_SIMD_CLONES void ScaleRows(const float* __restrict g, const float* __restrict scale,
                              int64_t rows, int64_t channels, float* __restrict dx) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* gr = g + r * channels;
    float* out = dx + r * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) out[c] = gr[c] * scale[c];
  }
}

namespace {

float InverseStd(float variance, float eps) { return 1.0f / std::sqrt(variance + eps); }

class Affine : public Kernel {
 public:
  Affine(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        type_(InputOf(g, op, 0).dtype),
        split_(SplitRows(AsRows(InputOf(g, op, 0)))),
        attrs_(std::get<NormAttrs>(op.attrs)),
        residual_(HasInput(op, 5)),
        mask_(HasOutput(op, 1)) {}

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>(split_.channels + NormApplyFloats(threads_, split_)) * sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    auto* scale = static_cast<float*>(args.workspace);
    for (int64_t c = 0; c < split_.channels; ++c) {
      scale[c] = args.In<float>(1)[c] * InverseStd(args.In<float>(4)[c], attrs_.eps);
    }
    NormApply apply;
    apply.first = {{type_, args.in[0]}, args.In<float>(3), scale, args.In<float>(2)};
    if (residual_) apply.residual = {type_, args.in[5]};
    apply.relu = attrs_.relu;
    apply.y = {type_, args.out[0], split_.elements()};
    apply.scratch = scale + split_.channels;
    apply.mask = mask_ ? args.Out<uint8_t>(1) : nullptr;
    RunNormApply(threads_, split_, apply);
  }

 private:
  int threads_;
  DType type_;
  RowSplit split_;
  NormAttrs attrs_;
  bool residual_, mask_;
};

class AffineGrad : public Kernel {
 public:
  AffineGrad(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        type_(InputOf(g, op, 0).dtype),
        split_(SplitRows(AsRows(InputOf(g, op, 0)))),
        attrs_(std::get<NormAttrs>(op.attrs)),
        x_(HasInput(op, 1)),
        mask_(HasInput(op, 5)),
        dx_(HasOutput(op, 0)),
        dscale_(HasOutput(op, 1)),
        dbias_(HasOutput(op, 2)),
        dresidual_(HasOutput(op, 3)) {}

  size_t WorkspaceBytes() const override {
    const int64_t blocks = (kMaskedBlocks + 1) * threads_ * BlockFloats(split_.channels);
    return static_cast<size_t>(std::max(GradSumFloats(threads_, split_), blocks) +
                               3 * split_.channels) *
           sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    const int64_t channels = split_.channels;
    auto* scale = static_cast<float*>(args.workspace);
    float *sum = scale + channels, *product = sum + channels, *scratch = product + channels;
    for (int64_t c = 0; c < channels; ++c) {
      scale[c] = args.In<float>(2)[c] * InverseStd(args.In<float>(4)[c], attrs_.eps);
    }
    MaskedRows rows;
    rows.dy[0] = {type_, args.in[0]};
    rows.mask = mask_ ? args.In<uint8_t>(5) : nullptr;
    if (dresidual_) rows.target = {type_, args.out[3], split_.elements()};
    if (dscale_ || dbias_) {
      NormGradSums sums;
      sums.rows = rows;
      if (x_) sums.x = {type_, args.in[1]};
      sums.mean = args.In<float>(3);
      sums.sum = sum;
      sums.product = product;
      sums.scratch = scratch;
      RunNormGradSums(threads_, split_, sums);
      for (int64_t c = 0; c < channels; ++c) {
        if (dscale_) {
          args.Out<float>(1)[c] = product[c] * InverseStd(args.In<float>(4)[c], attrs_.eps);
        }
        if (dbias_) args.Out<float>(2)[c] = sum[c];
      }
      if (dresidual_) rows = {{InValues(type_, args.out[3])}, nullptr, {}};
    }
    if (!dx_ && !rows.target) return;
    OutValues dx;
    if (dx_) dx = {type_, args.out[0], split_.elements()};
    const int64_t block_floats = BlockFloats(channels);
    ParallelFor(threads_, split_.chunks, [&](int64_t chunk) {
      float* block = scratch + (kMaskedBlocks + 1) * omp_get_thread_num() * block_floats;
      ForMaskedBlocks(split_, chunk, rows, block, [&](int64_t begin, int64_t end, const float* g) {
        if (!dx) return;
        const int64_t at = begin * channels;
        float* out = dx.Place(at, block + kMaskedBlocks * block_floats);
        ScaleRows(g, scale, end - begin, channels, out);
        dx.Put(at, (end - begin) * channels, out);
      });
    });
  }

 private:
  int threads_;
  DType type_;
  RowSplit split_;
  NormAttrs attrs_;
  bool x_, mask_, dx_, dscale_, dbias_, dresidual_;
};

}  // namespace

std::unique_ptr<Kernel> MakeAffine(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Affine>(context, g, op);
}
std::unique_ptr<Kernel> MakeAffineGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<AffineGrad>(context, g, op);
}

}  // namespace xp::graph::cpu
