// One pass over dy: each block sums its part of the rows, the last block of a tile of channels adds
// the parts (column_sums.cuh).
#include "kernels/bias_grad.h"

#include "kernels/column_sums.cuh"

namespace xp::kernels {
namespace {

// Rows that a thread keeps in flight.
template <typename T, int V>
inline constexpr int kUnroll = V == 1 || sizeof(T) == 2 ? 4 : 2;

template <typename T, int V>
__global__ void __launch_bounds__(kColumnThreads, 2)
    SumRows(const T* dy, float* db, const __grid_constant__ Columns m, float* partial,
            unsigned* counters) {
  constexpr int kRows = kUnroll<T, V>;
  __shared__ float scratch[kColumnScratch<V, 1>];
  const int channel = ThreadChannel<V>();
  float sum[V] = {};
  if (channel < m.channels) {
    auto add = [&](const Raw<V, T>& raw) {
      float v[V];
      Unpack(raw, v);
#pragma unroll
      for (int c = 0; c < V; ++c) sum[c] += v[c];
    };
    const int64_t stride = static_cast<int64_t>(blockDim.y) * m.channels;
    ForSpans<kRows>(m, [&](int64_t row, bool whole) {
      const T* from = dy + row * m.channels + channel;
      if (whole) {
        Raw<V, T> raw[kRows];
#pragma unroll
        for (int u = 0; u < kRows; ++u) raw[u] = LoadRaw<V>(from + u * stride);
#pragma unroll
        for (int u = 0; u < kRows; ++u) add(raw[u]);
      } else {
        for (; row < m.rows; row += blockDim.y, from += stride) add(LoadRaw<V>(from));
      }
    });
  }
  AddRowLanes(sum, scratch);
  WritePartial<V, 1>(partial, m.parts, sum);
  if (!LastOfTile(counters, m.parts)) return;
  AddParts<V, 1>(
      partial, m, scratch,
      [](int, int, const float(&value)[1], float(&total)[1]) { total[0] += value[0]; },
      [&](int c, const float(&total)[1]) { db[c] = total[0]; });
}

__global__ void Zero(float* db, int channels) {
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (c < channels) db[c] = 0;
}

}  // namespace

ColumnPlan PlanBiasGrad(int64_t rows, int channels, ElementType type, int multiprocessors) {
  int unroll = 0;
  DispatchVector(type, channels, [&](auto zero, auto vector) {
    unroll = kUnroll<decltype(zero), decltype(vector)::value>;
  });
  return PlanColumns(rows, channels, unroll, multiprocessors);
}

void BiasGrad(const void* dy, float* db, const ColumnPlan& plan, void* scratch, unsigned* counters,
              ElementType type, cudaStream_t stream) {
  if (plan.rows == 0) {
    Zero<<<CeilDiv(plan.channels, 256), 256, 0, stream>>>(db, plan.channels);
    return;
  }
  DispatchVector(type, plan.channels, [&](auto zero, auto vector) {
    using T = decltype(zero);
    SumRows<T, decltype(vector)::value><<<ColumnGrid(plan), ColumnBlock(plan), 0, stream>>>(
        static_cast<const T*>(dy), db, AsColumns(plan), static_cast<float*>(scratch), counters);
  });
}

}  // namespace xp::kernels
