// With g = dy where the mask's bit is set (else 0) and h = (x - mean) * invstd:
//   dbias = sum g, dscale = sum g * h,
//   dx = scale * invstd * (g - dbias / rows - h * dscale / rows)    batch statistics
//   dx = scale * invstd * g                                         fixed ones
// Pass 1 (Sums) reads dy, x and the mask; its last block a tile of channels also writes what pass 2
// needs: dx = a * g + b * x + c. Pass 2 (Apply) reads them again, last rows first, which are still
// in the L2 cache, and writes dx and dresidual. Bytes moved: 5 to 6 times the elements. With fixed
// statistics dx doesn't wait for the sums: one pass does all, 2 to 4 times the elements.
#include "kernels/norm_grad.h"

#include "kernels/column_sums.cuh"
#include "kernels/norm_grad_apply.cuh"

namespace xp::kernels {
namespace {

// coefficients: a, b, c of dx = a * g + b * x + c, [3][channels]. kFixed: fixed statistics; then dx
// and dresidual are written here.
template <typename T, int V, bool kFixed>
__global__ void __launch_bounds__(kColumnThreads, 2)
    Sums(const __grid_constant__ NormGradArgs p, const __grid_constant__ Columns m, float* partial,
         unsigned* counters, float* coefficients) {
  constexpr int kRows = kNormGradUnroll<V>;
  __shared__ float scratch[kColumnScratch<V, 2>];
  const auto* dy = static_cast<const T*>(p.dy);
  const auto* x = static_cast<const T*>(p.x == nullptr ? p.dy : p.x);
  const int channel = ThreadChannel<V>();
  float sum[2 * V] = {}, mean[V], slope[V];  // sums of g, then of g * (x - mean)
  if (channel < m.channels) {
#pragma unroll
    for (int c = 0; c < V; ++c) {
      mean[c] = p.mean[channel + c];
      if (kFixed) slope[c] = Slope<true>(p.scale[channel + c], p.spread[channel + c], p.eps);
    }
    struct Row {
      Raw<V, T> dy, x;
      unsigned bits;
    };
    auto load = [&](int64_t, int64_t at) {
      return Row{LoadRaw<V>(dy + at), LoadRaw<V>(x + at), MaskBits<V>(p.mask, at)};
    };
    auto add = [&](const Row& row, int64_t at) {
      float g[V], v[V];
      Unpack(row.dy, g);
      Unpack(row.x, v);
      ApplyMask(g, row.bits);
#pragma unroll
      for (int c = 0; c < V; ++c) {
        sum[c] += g[c];
        sum[V + c] += g[c] * (v[c] - mean[c]);
      }
      if constexpr (kFixed) {
        if (p.dresidual != nullptr) WriteVector<V>(static_cast<T*>(p.dresidual) + at, g);
#pragma unroll
        for (int c = 0; c < V; ++c) g[c] *= slope[c];
        if (p.dx != nullptr) WriteVector<V>(static_cast<T*>(p.dx) + at, g);
      }
    };
    ForRows<kRows>(m, channel, load, add);
  }
  AddRowLanes(sum, scratch);
  WritePartial<V, 2>(partial, m.parts, sum);
  if (!LastOfTile(counters, m.parts)) return;
  AddParts<V, 2>(
      partial, m, scratch,
      [](int, int, const float(&value)[2], float(&total)[2]) {
        total[0] += value[0];
        total[1] += value[1];
      },
      [&](int c, const float(&total)[2]) {
        const float invstd = kFixed ? 1.0f / sqrtf(p.spread[c] + p.eps) : p.spread[c];
        const float dscale = total[1] * invstd;
        if (p.dbias != nullptr) p.dbias[c] = total[0];
        if (p.dscale != nullptr) p.dscale[c] = dscale;
        if (kFixed) return;
        const float a = p.scale[c] * invstd, n = static_cast<float>(m.rows);
        const float b = -a * invstd * (dscale / n);
        coefficients[c] = a;
        coefficients[m.channels + c] = b;
        coefficients[2 * m.channels + c] = -a * (total[0] / n) - b * p.mean[c];
      });
}

// Fixed statistics without dscale and dbias: dx = slope * g.
template <typename T, int V>
__global__ void __launch_bounds__(kApplyThreads)
    ScaleByChannel(const __grid_constant__ NormGradArgs p, int64_t vectors, int channels) {
  constexpr int kVectors = 4;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kApplyThreads * kVectors) + threadIdx.x;
  const auto* dy = static_cast<const T*>(p.dy);
  Raw<V, T> raw[kVectors];
#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
    const int64_t i = first + u * kApplyThreads;
    if (i < vectors) raw[u] = LoadRaw<V>(dy + i * V);
  }
#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
    const int64_t i = first + u * kApplyThreads;
    if (i >= vectors) continue;
    float g[V];
    Unpack(raw[u], g);
    ApplyMask(g, MaskBits<V>(p.mask, i * V));
    if (p.dresidual != nullptr) WriteVector<V>(static_cast<T*>(p.dresidual) + i * V, g);
    if (p.dx == nullptr) continue;
    const int c = static_cast<int>(i * V % channels);
#pragma unroll
    for (int k = 0; k < V; ++k) g[k] *= Slope<true>(p.scale[c + k], p.spread[c + k], p.eps);
    WriteVector<V>(static_cast<T*>(p.dx) + i * V, g);
  }
}

}  // namespace

ColumnPlan PlanNormGrad(int64_t rows, int channels, ElementType type, int multiprocessors) {
  return PlanNormGradColumns(rows, channels, type, multiprocessors);
}

size_t NormGradScratch(const ColumnPlan& plan) {
  return plan.PartialBytes(2) + 3 * static_cast<size_t>(plan.channels) * sizeof(float);
}

void BatchNormGrad(const NormGradArgs& args, const ColumnPlan& plan, void* scratch,
                   unsigned* counters, ElementType type, cudaStream_t stream) {
  if (plan.rows == 0) return;
  auto* partial = static_cast<float*>(scratch);
  float* coefficients = partial + plan.PartialBytes(2) / sizeof(float);
  DispatchSixteenBytes(type, plan.channels, [&](auto zero, auto vector) {
    using T = decltype(zero);
    Sums<T, decltype(vector)::value, false><<<ColumnGrid(plan), ColumnBlock(plan), 0, stream>>>(
        args, AsColumns(plan), partial, counters, coefficients);
    if (args.dx != nullptr) {
      LaunchNormGradApply<T>({.dy = static_cast<const T*>(args.dy),
                              .x = static_cast<const T*>(args.x),
                              .mask = args.mask,
                              .coefficients = coefficients,
                              .dx = static_cast<T*>(args.dx),
                              .dresidual = static_cast<T*>(args.dresidual),
                              .rows = plan.rows,
                              .channels = plan.channels},
                             stream);
    }
  });
}

void AffineGrad(const NormGradArgs& args, const ColumnPlan& plan, void* scratch, unsigned* counters,
                ElementType type, cudaStream_t stream) {
  if (plan.rows == 0) return;
  DispatchSixteenBytes(type, plan.channels, [&](auto zero, auto vector) {
    using T = decltype(zero);
    constexpr int V = decltype(vector)::value;
    if (args.dscale != nullptr || args.dbias != nullptr) {
      Sums<T, V, true><<<ColumnGrid(plan), ColumnBlock(plan), 0, stream>>>(
          args, AsColumns(plan), static_cast<float*>(scratch), counters, nullptr);
    } else {
      const int64_t vectors = plan.rows * plan.channels / V;
      ScaleByChannel<T, V><<<CeilDiv(vectors, kApplyThreads * 4), kApplyThreads, 0, stream>>>(
          args, vectors, plan.channels);
    }
  });
}

}  // namespace xp::kernels
