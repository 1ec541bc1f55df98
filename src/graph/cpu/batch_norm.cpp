// Batch normalisation with the batch's own statistics, with the residual's addition and the ReLU
// that follow it, and its gradient. Two passes over memory each.
#include <cmath>

#include "src/graph/cpu/channel_sums.h"
#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/norm.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"

namespace xp::graph::cpu {

// dx = scale * (g - mean_g - (x - mean) * slope), a row at a time.
XP_SIMD_CLONES void BatchNormGradRows(const float* __restrict g, const float* __restrict x,
                                      const float* __restrict mean, const float* __restrict scale,
                                      const float* __restrict mean_g, const float* __restrict slope,
                                      int64_t rows, int64_t channels, float* __restrict dx) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *gr = g + r * channels, *xr = x + r * channels;
    float* out = dx + r * channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      out[c] = scale[c] * ((gr[c] - mean_g[c]) - (xr[c] - mean[c]) * slope[c]);
    }
  }
}

namespace {

// Mean and sum of squared differences of channels [begin, end) from the chunks' shifted moments
// (Chan, Golub and LeVeque 1979): each chunk's squares are moved from its shift to the mean.
void CombineMoments(const RowSplit& split, const float* shift, const float* sum,
                    const float* square, int64_t c, double& mean, double& squares) {
  const auto n = static_cast<double>(split.rows);
  double total = 0;
  for (int64_t i = 0; i < split.chunks; ++i) {
    const int64_t at = i * split.channels + c;
    total += static_cast<double>(split.RowsOf(i)) * static_cast<double>(shift[at]) +
             static_cast<double>(sum[at]);
  }
  mean = total / n;
  squares = 0;
  for (int64_t i = 0; i < split.chunks; ++i) {
    const int64_t at = i * split.channels + c;
    const double d = static_cast<double>(shift[at]) - mean;
    squares += static_cast<double>(square[at]) + 2 * d * static_cast<double>(sum[at]) +
               static_cast<double>(split.RowsOf(i)) * d * d;
  }
  squares = std::max(squares, 0.0);
}

class BatchNorm : public Kernel {
 public:
  BatchNorm(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        split_(SplitRows(AsRows(InputOf(g, op, 0)))),
        attrs_(std::get<NormAttrs>(op.attrs)),
        y_(HasOutput(op, 0)),
        residual_(HasInput(op, 5)),
        mask_(HasOutput(op, 3)) {}

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>((3 * split_.chunks + 1) * split_.channels) * sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    if (split_.chunks == 0) return;
    const int64_t channels = split_.channels, part = split_.chunks * channels;
    const float* x = args.In<float>(0);
    auto* shift = static_cast<float*>(args.workspace);
    float *sum = shift + part, *square = sum + part, *scale = square + part;
    ParallelFor(threads_, split_.chunks, [&](int64_t i) {
      ShiftedMoments(x + split_.Begin(i) * channels, split_.RowsOf(i), channels,
                     shift + i * channels, sum + i * channels, square + i * channels);
    });
    ParallelRanges(threads_, channels, 16, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        double mean = 0, squares = 0;
        CombineMoments(split_, shift, sum, square, c, mean, squares);
        Finish(args, c, mean, squares, scale);
      }
    });
    if (!y_) return;
    NormApply apply;
    apply.x = x;
    apply.residual = residual_ ? args.In<float>(5) : nullptr;
    apply.mean = args.Out<float>(1);
    apply.scale = scale;
    apply.bias = args.In<float>(2);
    apply.relu = attrs_.relu;
    apply.y = args.Out<float>(0);
    apply.mask = mask_ ? args.Out<uint8_t>(3) : nullptr;
    RunNormApply(threads_, split_, apply);
  }

 private:
  void Finish(const KernelArgs& args, int64_t c, double mean, double squares, float* scale) const {
    const auto n = static_cast<double>(split_.rows);
    const double invstd = 1.0 / std::sqrt(squares / n + static_cast<double>(attrs_.eps));
    args.Out<float>(1)[c] = static_cast<float>(mean);
    args.Out<float>(2)[c] = static_cast<float>(invstd);
    scale[c] = args.In<float>(1)[c] * static_cast<float>(invstd);
    // The running variance is unbiased; of a single value it is 0.
    const auto momentum = static_cast<double>(attrs_.momentum);
    const double variance = squares / std::max(n - 1, 1.0);
    const auto old_mean = static_cast<double>(args.In<float>(3)[c]);
    const auto old_variance = static_cast<double>(args.In<float>(4)[c]);
    args.Out<float>(4)[c] = static_cast<float>((1 - momentum) * old_mean + momentum * mean);
    args.Out<float>(5)[c] = static_cast<float>((1 - momentum) * old_variance + momentum * variance);
  }

  int threads_;
  RowSplit split_;
  NormAttrs attrs_;
  bool y_, residual_, mask_;
};

class BatchNormGrad : public Kernel {
 public:
  BatchNormGrad(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        split_(SplitRows(AsRows(InputOf(g, op, 0)))),
        mask_(HasInput(op, 5)),
        dx_(HasOutput(op, 0)),
        dscale_(HasOutput(op, 1)),
        dbias_(HasOutput(op, 2)),
        dresidual_(HasOutput(op, 3)) {}

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>(GradSumFloats(threads_, split_) + 5 * split_.channels) *
           sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    const int64_t channels = split_.channels;
    auto* sum = static_cast<float*>(args.workspace);
    float *product = sum + channels, *scale = product + channels, *mean_g = scale + channels,
          *slope = mean_g + channels, *scratch = slope + channels;
    NormGradSums sums;
    sums.rows = {args.In<float>(0), mask_ ? args.In<uint8_t>(5) : nullptr,
                 dresidual_ ? args.Out<float>(3) : nullptr};
    sums.x = args.In<float>(1);
    sums.mean = args.In<float>(3);
    sums.sum = sum;
    sums.product = product;
    sums.scratch = scratch;
    RunNormGradSums(threads_, split_, sums);
    const float *weight = args.In<float>(2), *invstd = args.In<float>(4);
    const float n = static_cast<float>(split_.rows);
    for (int64_t c = 0; c < channels; ++c) {
      if (dscale_) args.Out<float>(1)[c] = product[c] * invstd[c];
      if (dbias_) args.Out<float>(2)[c] = sum[c];
      scale[c] = weight[c] * invstd[c];
      mean_g[c] = sum[c] / n;
      slope[c] = product[c] * invstd[c] * invstd[c] / n;
    }
    if (!dx_) return;
    // dresidual already is the masked gradient.
    MaskedRows rows = sums.rows;
    if (dresidual_) rows = {args.Out<float>(3), nullptr, nullptr};
    float* blocks = scratch;
    ParallelFor(threads_, split_.chunks, [&](int64_t chunk) {
      float* block = blocks + omp_get_thread_num() * BlockFloats(channels);
      ForMaskedBlocks(split_, chunk, rows, block, [&](int64_t begin, int64_t end, const float* g) {
        BatchNormGradRows(g, sums.x + begin * channels, sums.mean, scale, mean_g, slope,
                          end - begin, channels, args.Out<float>(0) + begin * channels);
      });
    });
  }

 private:
  int threads_;
  RowSplit split_;
  bool mask_, dx_, dscale_, dbias_, dresidual_;
};

}  // namespace

std::unique_ptr<Kernel> MakeBatchNorm(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<BatchNorm>(context, g, op);
}
std::unique_ptr<Kernel> MakeBatchNormGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<BatchNormGrad>(context, g, op);
}

}  // namespace xp::graph::cpu
