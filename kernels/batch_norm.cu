// Pass 1 reads x: each block sums (x - k) and (x - k)^2 a channel, k being the first row it sees,
// so that a mean far from zero costs no digits; mean and squared deviations of the blocks are
// merged as in Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983. Pass 2
// (norm_apply.cuh) reads x again, last rows first. Bytes moved: 3 times the elements, a fourth for
// the residual; for maps up to the size of the L2 cache pass 2 finds part of x there.
#include "kernels/batch_norm.h"

#include "kernels/column_sums.cuh"
#include "kernels/norm_apply.cuh"

namespace xp::kernels {
namespace {

template <typename T, int V>
__global__ void __launch_bounds__(kColumnThreads, 2)
    Statistics(const T* x, const __grid_constant__ BatchNormArgs args,
               const __grid_constant__ Columns m, float* partial, unsigned* counters) {
  __shared__ float scratch[kColumnScratch<V, 2>];
  constexpr int kRows = kRowsInFlight<T, V>;
  const int channel = ThreadChannel<V>();
  float sum[2 * V] = {}, shift[V] = {};  // sums of x - k, then of their squares
  if (channel < m.channels) {
    ReadVector<V>(x + blockIdx.y * (blockDim.y * int64_t{kRows}) * m.channels + channel, shift);
    auto add = [&](const Raw<V, T>& raw, int64_t) {
      float v[V];
      Unpack(raw, v);
#pragma unroll
      for (int c = 0; c < V; ++c) {
        const float d = v[c] - shift[c];
        sum[c] += d;
        sum[V + c] += d * d;
      }
    };
    ForRows<kRows>(
        m, channel, [&](int64_t, int64_t at) { return LoadRaw<V>(x + at); }, add);
  }
  AddRowLanes(sum, scratch);
  const PartRows rows_of(m, static_cast<int>(blockDim.y) * kRows);
  const float rows = rows_of(static_cast<int>(blockIdx.y));
#pragma unroll
  for (int c = 0; c < V; ++c) {  // now the mean and the sum of squared deviations
    const float d = sum[c] / rows;
    sum[V + c] = fmaxf(sum[V + c] - sum[c] * d, 0.0f);
    sum[c] = shift[c] + d;
  }
  WritePartial<V, 2>(partial, m.parts, sum);
  if (!LastOfTile(counters, m.parts)) return;

  const int width = static_cast<int>(blockDim.x) * V;
  const float* means = partial + static_cast<int64_t>(blockIdx.x) * m.parts * 2 * width;  // part 0
  AddParts<V, 2>(
      partial, m, scratch,
      [&](int part, int c, const float(&value)[2], float(&total)[2]) {
        const float n = rows_of(part);
        const float d = value[0] - means[c];
        total[0] += n * d;
        total[1] += value[1] + n * d * d;
      },
      [&](int c, const float(&total)[2]) {
        const float n = static_cast<float>(m.rows);
        const float d = total[0] / n;
        const float mean = means[c - static_cast<int>(blockIdx.x) * width] + d;
        const float squares = fmaxf(total[1] - total[0] * d, 0.0f);
        args.save_mean[c] = mean;
        args.save_invstd[c] = 1.0f / sqrtf(squares / n + args.eps);
        // The running variance is unbiased; of a single value it is 0.
        const float unbiased = squares / fmaxf(n - 1, 1.0f);
        args.mean_after[c] = (1 - args.momentum) * args.mean[c] + args.momentum * mean;
        args.var_after[c] = (1 - args.momentum) * args.var[c] + args.momentum * unbiased;
      });
}

}  // namespace

ColumnPlan PlanBatchNorm(int64_t rows, int channels, ElementType type, int multiprocessors) {
  int unroll = 0;
  DispatchVector(type, channels, [&](auto zero, auto vector) {
    unroll = kRowsInFlight<decltype(zero), decltype(vector)::value>;
  });
  return PlanColumns(rows, channels, unroll, multiprocessors);
}

size_t BatchNormScratch(const ColumnPlan& plan) { return plan.PartialBytes(2); }

void BatchNorm(const BatchNormArgs& args, const ColumnPlan& plan, void* scratch, unsigned* counters,
               ElementType type, cudaStream_t stream) {
  if (plan.rows == 0) return;
  DispatchVector(type, plan.channels, [&](auto zero, auto vector) {
    using T = decltype(zero);
    constexpr int V = decltype(vector)::value;
    const auto* x = static_cast<const T*>(args.x);
    Statistics<T, V><<<ColumnGrid(plan), ColumnBlock(plan), 0, stream>>>(
        x, args, AsColumns(plan), static_cast<float*>(scratch), counters);
    if (args.y == nullptr) return;
    LaunchNormApply<false, T>({.x = x,
                               .residual = static_cast<const T*>(args.residual),
                               .y = static_cast<T*>(args.y),
                               .mask = args.mask,
                               .scale = args.scale,
                               .bias = args.bias,
                               .mean = args.save_mean,
                               .spread = args.save_invstd,
                               .eps = args.eps,
                               .relu = args.relu,
                               .from_end = true,
                               .rows = plan.rows,
                               .channels = plan.channels},
                              stream);
  });
}

}  // namespace xp::kernels
