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
        type_(InputOf(g, op, 0).dtype),
        split_(SplitRows(AsRows(InputOf(g, op, 0)))),
        attrs_(std::get<NormAttrs>(op.attrs)),
        y_(HasOutput(op, 0)),
        residual_(HasInput(op, 5)),
        mask_(HasOutput(op, 3)) {}

  size_t WorkspaceBytes() const override {
    const int64_t blocks =
        std::max(NormApplyFloats(threads_, split_), threads_ * StatisticsFloats());
    return static_cast<size_t>((3 * split_.chunks + 1) * split_.channels + blocks) * sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    if (split_.chunks == 0) return;
    const int64_t channels = split_.channels, part = split_.chunks * channels;
    const InValues x(type_, args.in[0]);
    auto* shift = static_cast<float*>(args.workspace);
    float *sum = shift + part, *square = sum + part, *scale = square + part;
    float* blocks = scale + channels;
    ParallelFor(threads_, split_.chunks, [&](int64_t i) {
      Moments(x, i, blocks + omp_get_thread_num() * StatisticsFloats(), shift + i * channels,
              sum + i * channels, square + i * channels);
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
    apply.first = {x, args.Out<float>(1), scale, args.In<float>(2)};
    if (residual_) apply.residual = {type_, args.in[5]};
    apply.relu = attrs_.relu;
    apply.y = {type_, args.out[0], split_.elements()};
    apply.mask = mask_ ? args.Out<uint8_t>(3) : nullptr;
    apply.scratch = blocks;
    RunNormApply(threads_, split_, apply);
  }

 private:
  // Sums are made four rows at a time, whatever the blocks.
  int64_t StatisticsRows() const { return (BlockRows(split_.channels) + 3) / 4 * 4; }
  int64_t StatisticsFloats() const { return StatisticsRows() * split_.channels; }

  // A chunk's moments around the mean of its first rows.
  void Moments(const InValues& x, int64_t chunk, float* block, float* shift, float* sum,
               float* square) const {
    const int64_t channels = split_.channels, step = StatisticsRows();
    const int64_t first = split_.Begin(chunk), last = first + split_.RowsOf(chunk);
    const auto rows_at = [&](int64_t begin, int64_t end) {
      return x.Floats(begin * channels, (end - begin) * channels, block);
    };
    for (float* zero : {shift, sum, square}) std::fill(zero, zero + channels, 0.0f);
    const int64_t shift_end = std::min<int64_t>(last, first + 32);
    for (int64_t r = first; r < shift_end; r += step) {
      const int64_t end = std::min(r + step, shift_end);
      const float* rows = rows_at(r, end);
      for (int64_t i = 0; i < end - r; ++i) AddRows(rows + i * channels, channels, shift);
    }
    const float scale = 1.0f / static_cast<float>(shift_end - first);
    for (int64_t c = 0; c < channels; ++c) shift[c] *= scale;
    for (int64_t r = first; r < last; r += step) {
      const int64_t end = std::min(r + step, last);
      AddShiftedMoments(rows_at(r, end), shift, end - r, channels, sum, square);
    }
  }

  void Finish(const KernelArgs& args, int64_t c, double mean, double squares, float* scale) const {
    const auto n = static_cast<double>(split_.rows);
    const double invstd = 1.0 / std::sqrt(squares / n + static_cast<double>(attrs_.eps));
    args.Out<float>(1)[c] = static_cast<float>(mean);
    args.Out<float>(2)[c] = static_cast<float>(invstd);
    scale[c] = args.In<float>(1)[c] * static_cast<float>(invstd);
    const RunningMoments running = {args.In<float>(3), args.In<float>(4), args.Out<float>(4),
                                    args.Out<float>(5)};
    running.Update(c, static_cast<double>(attrs_.momentum), mean, squares / std::max(n - 1, 1.0));
  }

  int threads_;
  DType type_;
  RowSplit split_;
  NormAttrs attrs_;
  bool y_, residual_, mask_;
};

class BatchNormGrad : public Kernel {
 public:
  BatchNormGrad(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        type_(InputOf(g, op, 0).dtype),
        split_(SplitRows(AsRows(InputOf(g, op, 0)))),
        mask_(HasInput(op, 5)),
        dx_(HasOutput(op, 0)),
        dscale_(HasOutput(op, 1)),
        dbias_(HasOutput(op, 2)),
        dresidual_(HasOutput(op, 3)) {}

  size_t WorkspaceBytes() const override {
    const int64_t blocks = (kMaskedBlocks + 2) * threads_ * BlockFloats(split_.channels);
    return static_cast<size_t>(std::max(GradSumFloats(threads_, split_), blocks) +
                               5 * split_.channels) *
           sizeof(float);
  }

  void Run(const KernelArgs& args) override {
    const int64_t channels = split_.channels;
    auto* sum = static_cast<float*>(args.workspace);
    float *product = sum + channels, *scale = product + channels, *mean_g = scale + channels,
          *slope = mean_g + channels, *scratch = slope + channels;
    NormGradSums sums;
    sums.rows.dy[0] = {type_, args.in[0]};
    sums.rows.mask = mask_ ? args.In<uint8_t>(5) : nullptr;
    if (dresidual_) sums.rows.target = {type_, args.out[3], split_.elements()};
    sums.x = {type_, args.in[1]};
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
    // dresidual already is the masked gradient, and exactly: dy has its type.
    MaskedRows rows = sums.rows;
    if (dresidual_) rows = {{InValues(type_, args.out[3])}, nullptr, {}};
    const OutValues dx(type_, args.out[0], split_.elements());
    const int64_t block_floats = BlockFloats(channels);
    ParallelFor(threads_, split_.chunks, [&](int64_t chunk) {
      float* block = scratch + (kMaskedBlocks + 2) * omp_get_thread_num() * block_floats;
      float *wide_x = block + kMaskedBlocks * block_floats, *wide_dx = wide_x + block_floats;
      ForMaskedBlocks(split_, chunk, rows, block, [&](int64_t begin, int64_t end, const float* g) {
        const int64_t at = begin * channels, count = (end - begin) * channels;
        float* out = dx.Place(at, wide_dx);
        BatchNormGradRows(g, sums.x.Floats(at, count, wide_x), sums.mean, scale, mean_g, slope,
                          end - begin, channels, out);
        dx.Put(at, count, out);
      });
    });
  }

 private:
  int threads_;
  DType type_;
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
