// A warp has a pixel; it reads the channels twice, the second time from the L1 cache. With r = 1 /
// max(||x||, 1e-12): dx = r * (scale * dy) - x * r^3 * sum(scale * dy * x), the second term only
// where the norm isn't clamped; dscale = sum over pixels of dy * x * r, in a second pass
// (column_sums.cuh).
#include "kernels/l2_norm.h"

#include "kernels/column_sums.cuh"

namespace xp::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr float kSmallest = 1e-12f;
constexpr int kRows = 2;  // that a thread keeps in flight

__device__ inline float WarpSum(float v) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) v += __shfl_xor_sync(0xffffffffu, v, lane);
  return v;
}

__device__ inline int64_t WarpRow() {
  return static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    L2NormKernel(const T* x, const float* scale, T* y, int64_t rows, int channels) {
  const int64_t row = WarpRow();
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x % 32) * V;
  x += row * channels;
  y += row * channels;
  float squares = 0;
  for (int c = lane; c < channels; c += 32 * V) {
    float v[V];
    ReadVector<V>(x + c, v);
#pragma unroll
    for (int k = 0; k < V; ++k) squares += v[k] * v[k];
  }
  const float inverse = 1.0f / fmaxf(sqrtf(WarpSum(squares)), kSmallest);
  for (int c = lane; c < channels; c += 32 * V) {
    float v[V];
    ReadVector<V>(x + c, v);
#pragma unroll
    for (int k = 0; k < V; ++k) v[k] = scale[c + k] * v[k] * inverse;
    WriteVector<V>(y + c, v);
  }
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    L2NormGradKernel(const T* dy, const T* x, const float* scale, T* dx, float* inverses,
                     int64_t rows, int channels) {
  const int64_t row = WarpRow();
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x % 32) * V;
  x += row * channels;
  dy += row * channels;
  dx += row * channels;
  float squares = 0, dot = 0;
  for (int c = lane; c < channels; c += 32 * V) {
    float v[V], g[V];
    ReadVector<V>(x + c, v);
    ReadVector<V>(dy + c, g);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      squares += v[k] * v[k];
      dot += scale[c + k] * g[k] * v[k];
    }
  }
  const float norm = sqrtf(WarpSum(squares));
  const float inverse = 1.0f / fmaxf(norm, kSmallest);
  const float along = norm > kSmallest ? WarpSum(dot) * inverse * inverse : 0.0f;
  for (int c = lane; c < channels; c += 32 * V) {
    float v[V], g[V];
    ReadVector<V>(x + c, v);
    ReadVector<V>(dy + c, g);
#pragma unroll
    for (int k = 0; k < V; ++k) g[k] = inverse * (scale[c + k] * g[k] - v[k] * along);
    WriteVector<V>(dx + c, g);
  }
  if (lane == 0) inverses[row] = inverse;
}

template <typename T, int V>
__global__ void __launch_bounds__(kColumnThreads, 2)
    ScaleGradient(const T* dy, const T* x, const float* inverses, float* dscale,
                  const __grid_constant__ Columns m, float* partial, unsigned* counters) {
  __shared__ float scratch[kColumnScratch<V, 1>];
  const int channel = ThreadChannel<V>();
  float sum[V] = {};
  if (channel < m.channels) {
    struct Row {
      Raw<V, T> dy, x;
      float inverse;
    };
    auto load = [&](int64_t row, int64_t at) {
      return Row{LoadRaw<V>(dy + at), LoadRaw<V>(x + at), inverses[row]};
    };
    auto add = [&](const Row& row, int64_t) {
      float g[V], v[V];
      Unpack(row.dy, g);
      Unpack(row.x, v);
#pragma unroll
      for (int c = 0; c < V; ++c) sum[c] += g[c] * v[c] * row.inverse;
    };
    ForRows<kRows>(m, channel, load, add);
  }
  AddRowLanes(sum, scratch);
  WritePartial<V, 1>(partial, m.parts, sum);
  if (!LastOfTile(counters, m.parts)) return;
  AddParts<V, 1>(
      partial, m, scratch,
      [](int, int, const float(&value)[1], float(&total)[1]) { total[0] += value[0]; },
      [&](int c, const float(&total)[1]) { dscale[c] = total[0]; });
}

}  // namespace

void L2Norm(const void* x, const float* scale, void* y, int64_t rows, int channels,
            ElementType type, cudaStream_t stream) {
  if (rows == 0) return;
  DispatchVector(type, channels, [&](auto zero, auto vector) {
    using T = decltype(zero);
    L2NormKernel<T, decltype(vector)::value><<<CeilDiv(rows, kWarps), kThreads, 0, stream>>>(
        static_cast<const T*>(x), scale, static_cast<T*>(y), rows, channels);
  });
}

ColumnPlan PlanL2NormGrad(int64_t rows, int channels, ElementType, int multiprocessors) {
  return PlanColumns(rows, channels, kRows, multiprocessors);
}

size_t L2NormGradScratch(const ColumnPlan& plan) {
  return plan.PartialBytes(1) + static_cast<size_t>(plan.rows) * sizeof(float);
}

void L2NormGrad(const void* dy, const void* x, const float* scale, void* dx, float* dscale,
                const ColumnPlan& plan, void* scratch, unsigned* counters, ElementType type,
                cudaStream_t stream) {
  if (plan.rows == 0) return;
  auto* partial = static_cast<float*>(scratch);
  float* inverses = partial + plan.PartialBytes(1) / sizeof(float);
  DispatchVector(type, plan.channels, [&](auto zero, auto vector) {
    using T = decltype(zero);
    constexpr int V = decltype(vector)::value;
    const auto *g = static_cast<const T*>(dy), *v = static_cast<const T*>(x);
    L2NormGradKernel<T, V><<<CeilDiv(plan.rows, kWarps), kThreads, 0, stream>>>(
        g, v, scale, static_cast<T*>(dx), inverses, plan.rows, plan.channels);
    ScaleGradient<T, V><<<ColumnGrid(plan), ColumnBlock(plan), 0, stream>>>(
        g, v, inverses, dscale, AsColumns(plan), partial, counters);
  });
}

}  // namespace xp::kernels
