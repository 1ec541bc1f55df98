// As pass 1 of norm_grad.cu, in the same order: with one branch the sums have the same bits as
// those of a separate addition followed by it, since g is rounded before it counts. Reading up to
// three gradients here saves the addition's own pass (three times the elements) and the second
// reading of mask and sum.
#include "kernels/norm_grad_sums.h"

#include "kernels/column_sums.cuh"
#include "kernels/norm_grad_apply.cuh"

namespace xp::kernels {
namespace {

// Shared floats: AddRowLanes for one sum at a time, AddParts for all.
template <int V, int kSums>
inline constexpr int kScratch =
    kPartScratch<V, kSums> > kColumnScratch<V, 1> ? kPartScratch<V, kSums> : kColumnScratch<V, 1>;

// What there is besides dy[0] and perhaps dy[1].
enum class More { kNone, kThird, kEven };

// Two a multiprocessor where 64 registers a thread do.
template <int V, int kBranches, More kMore>
inline constexpr int kBlocks = V <= 4 ? (kBranches > 1 ? 1 : 2)
                                      : (kBranches > 0 || kMore != More::kNone ? 1 : 2);

template <typename T, int V, int kBranches, More kMore>
__global__ void __launch_bounds__(kColumnThreads, kBlocks<V, kBranches, kMore>)
    JoinedSums(const __grid_constant__ NormGradSumsArgs p, const __grid_constant__ Columns m,
               float* partial, unsigned* counters) {
  constexpr int kRows = kNormGradUnroll<V>, kSums = 1 + kBranches;
  __shared__ float scratch[kScratch<V, kSums>];
  const auto* dy0 = static_cast<const T*>(p.dy[0]);
  const auto* dy1 = static_cast<const T*>(p.dy[1]);
  const auto* dy2 = static_cast<const T*>(kMore == More::kEven ? p.even.values : p.dy[2]);
  const T* x[kBranches + 1];
#pragma unroll
  for (int b = 0; b < kBranches; ++b) x[b] = static_cast<const T*>(p.branch[b].x);
  const int channel = ThreadChannel<V>();
  float sum[kSums * V] = {}, mean[kBranches + 1][V];  // sums of g, then of g * (x - mean)
  if (channel < m.channels) {
#pragma unroll
    for (int b = 0; b < kBranches; ++b) {
#pragma unroll
      for (int c = 0; c < V; ++c) mean[b][c] = p.branch[b].mean[channel + c];
    }
    struct Row {
      Raw<V, T> dy0, dy1, dy2, x[kBranches + 1];
      unsigned bits;
    };
    auto load = [&](int64_t pixel, int64_t at) {
      Row row;
      row.dy0 = LoadRaw<V>(dy0 + at);
      if (dy1 != nullptr) row.dy1 = LoadRaw<V>(dy1 + at);
      if constexpr (kMore == More::kThird) row.dy2 = LoadRaw<V>(dy2 + at);
      if constexpr (kMore == More::kEven) {
        const int64_t even = p.even.Pixel(pixel);
        row.dy2 = even < 0 ? Raw<V, T>{} : LoadRaw<V>(dy2 + even * m.channels + channel);
      }
#pragma unroll
      for (int b = 0; b < kBranches; ++b) row.x[b] = LoadRaw<V>(x[b] + at);
      row.bits = MaskBits<V>(p.mask, at);
      return row;
    };
    auto add = [&](const Row& row, int64_t at) {
      float g[V], v[V];
      Unpack(row.dy0, g);
      if (dy1 != nullptr) {
        Unpack(row.dy1, v);
#pragma unroll
        for (int c = 0; c < V; ++c) g[c] += v[c];
      }
      if constexpr (kMore != More::kNone) {
        Unpack(row.dy2, v);
#pragma unroll
        for (int c = 0; c < V; ++c) g[c] += v[c];
      }
#pragma unroll
      for (int c = 0; c < V; ++c) g[c] = ToFloat(FromFloat<T>(g[c]));
      ApplyMask(g, row.bits);
      WriteVector<V>(static_cast<T*>(p.g) + at, g);
#pragma unroll
      for (int c = 0; c < V; ++c) sum[c] += g[c];
#pragma unroll
      for (int b = 0; b < kBranches; ++b) {
        Unpack(row.x[b], v);
#pragma unroll
        for (int c = 0; c < V; ++c) sum[(1 + b) * V + c] += g[c] * (v[c] - mean[b][c]);
      }
    };
    ForRows<kRows>(m, channel, load, add);
  }
#pragma unroll
  for (int k = 0; k < kSums; ++k) {  // one after the other: shared memory for three doesn't do
    float one[V];
#pragma unroll
    for (int c = 0; c < V; ++c) one[c] = sum[k * V + c];
    AddRowLanes(one, scratch);
#pragma unroll
    for (int c = 0; c < V; ++c) sum[k * V + c] = one[c];
  }
  WritePartial<V, kSums>(partial, m.parts, sum);
  if (!LastOfTile(counters, m.parts)) return;
  AddParts<V, kSums>(
      partial, m, scratch,
      [](int, int, const float(&value)[kSums], float(&total)[kSums]) {
#pragma unroll
        for (int k = 0; k < kSums; ++k) total[k] += value[k];
      },
      [&](int c, const float(&total)[kSums]) {
#pragma unroll
        for (int b = 0; b < 2; ++b) {
          if (p.dbias[b] != nullptr) p.dbias[b][c] = total[0];
        }
#pragma unroll
        for (int k = 0; k < kBranches; ++k) {
          const NormGradBranch& branch = p.branch[k];
          const float invstd = branch.invstd[c];
          const float dscale = total[1 + k] * invstd;
          if (branch.dscale != nullptr) branch.dscale[c] = dscale;
          if (branch.coefficients == nullptr) continue;
          const float a = branch.scale[c] * invstd, n = static_cast<float>(m.rows);
          const float b = -a * invstd * (dscale / n);
          branch.coefficients[c] = a;
          branch.coefficients[m.channels + c] = b;
          branch.coefficients[2 * m.channels + c] = -a * (total[0] / n) - b * branch.mean[c];
        }
      });
}

template <typename T, int V, int kBranches>
void Launch(const NormGradSumsArgs& args, const ColumnPlan& plan, float* partial,
            unsigned* counters, cudaStream_t stream) {
  auto* kernel = args.even.values != nullptr ? &JoinedSums<T, V, kBranches, More::kEven>
                 : args.dy[2] != nullptr     ? &JoinedSums<T, V, kBranches, More::kThird>
                                             : &JoinedSums<T, V, kBranches, More::kNone>;
  kernel<<<ColumnGrid(plan), ColumnBlock(plan), 0, stream>>>(args, AsColumns(plan), partial,
                                                             counters);
}

}  // namespace

ColumnPlan PlanNormGradSums(int64_t rows, int channels, ElementType type, int multiprocessors) {
  return PlanNormGradColumns(rows, channels, type, multiprocessors);
}

size_t NormGradSumsScratch(const ColumnPlan& plan, int branches) {
  return plan.PartialBytes(1 + branches);
}

void NormGradSums(const NormGradSumsArgs& args, const ColumnPlan& plan, void* scratch,
                  unsigned* counters, ElementType type, cudaStream_t stream) {
  if (plan.rows == 0) return;
  auto* partial = static_cast<float*>(scratch);
  DispatchSixteenBytes(type, plan.channels, [&](auto zero, auto vector) {
    using T = decltype(zero);
    constexpr int V = decltype(vector)::value;
    if (args.branches == 2) {
      Launch<T, V, 2>(args, plan, partial, counters, stream);
    } else if (args.branches == 1) {
      Launch<T, V, 1>(args, plan, partial, counters, stream);
    } else {
      Launch<T, V, 0>(args, plan, partial, counters, stream);
    }
  });
}

void NormGradApply(const void* g, const void* x, const float* coefficients, void* dx, int64_t rows,
                   int channels, ElementType type, cudaStream_t stream) {
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    LaunchNormGradApply<T>({.dy = static_cast<const T*>(g),
                            .x = static_cast<const T*>(x),
                            .mask = nullptr,
                            .coefficients = coefficients,
                            .dx = static_cast<T*>(dx),
                            .dresidual = nullptr,
                            .rows = rows,
                            .channels = channels},
                           stream);
  });
}

}  // namespace xp::kernels
