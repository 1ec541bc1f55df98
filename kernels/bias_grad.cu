// One pass over dy: each block sums its part of the rows, the last block of a tile of channels adds
// the parts (column_sums.cuh).
#include "kernels/bias_grad.h"

#include "kernels/column_sums.cuh"

namespace xp::kernels {
namespace {

template <typename T, int V>
__global__ void __launch_bounds__(kColumnThreads, 2)
    SumRows(const T* dy, float* db, const __grid_constant__ Columns m, float* partial,
            unsigned* counters) {
  constexpr int kRows = kRowsInFlight<T, V>;
  __shared__ float scratch[kColumnScratch<V, 1>];
  const int channel = ThreadChannel<V>();
  float sum[V] = {};
  if (channel < m.channels) {
    auto add = [&](const Raw<V, T>& raw, int64_t) {
      float v[V];
      Unpack(raw, v);
#pragma unroll
      for (int c = 0; c < V; ++c) sum[c] += v[c];
    };
    ForRows<kRows>(
        m, channel, [&](int64_t, int64_t at) { return LoadRaw<V>(dy + at); }, add);
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
    unroll = kRowsInFlight<decltype(zero), decltype(vector)::value>;
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
