// One thread a vector of channels of a result's pixel; gradients gather.
#include "kernels/resample.h"

#include "kernels/map_grid.cuh"

namespace xp::kernels {
namespace {

// floor(at * small / large)
__device__ inline int Source(int at, int small, int large) {
  return static_cast<int>(static_cast<unsigned>(at) * static_cast<unsigned>(small) /
                          static_cast<unsigned>(large));
}
// The first of `large` pixels whose source is at least `source`.
__device__ inline int FirstReader(int source, int small, int large) {
  return static_cast<int>(
      (static_cast<unsigned>(source) * static_cast<unsigned>(large) + small - 1) /
      static_cast<unsigned>(small));
}

template <typename T, int V>
__global__ void __launch_bounds__(kMapThreads)
    UpsampleAddKernel(const T* top, const T* lateral, T* y, const MapShape from,
                      const MapShape to) {
  const MapPlace at = PlaceOf<V>(to);
  if (!at.inside) return;
  const int64_t i = Offset(to, at.n, at.y, at.x, at.c);
  float a[V], b[V];
  const Raw<V, T> raw = LoadRaw<V>(lateral + i);
  ReadVector<V>(
      top + Offset(from, at.n, Source(at.y, from.h, to.h), Source(at.x, from.w, to.w), at.c), b);
  Unpack(raw, a);
#pragma unroll
  for (int c = 0; c < V; ++c) a[c] += b[c];
  WriteVector<V>(y + i, a);
}

template <typename T, int V>
__global__ void __launch_bounds__(kMapThreads)
    UpsampleGradKernel(const T* dy, T* dtop, const MapShape from, const MapShape to) {
  const MapPlace at = PlaceOf<V>(from);
  if (!at.inside) return;
  const int y1 = FirstReader(at.y + 1, from.h, to.h), x0 = FirstReader(at.x, from.w, to.w);
  const int x1 = FirstReader(at.x + 1, from.w, to.w);
  float sum[V] = {};
  for (int y = FirstReader(at.y, from.h, to.h); y < y1; ++y) {
    for (int x = x0; x < x1; ++x) {
      float v[V];
      ReadVector<V>(dy + Offset(to, at.n, y, x, at.c), v);
#pragma unroll
      for (int c = 0; c < V; ++c) sum[c] += v[c];
    }
  }
  WriteVector<V>(dtop + Offset(from, at.n, at.y, at.x, at.c), sum);
}

template <typename T, int V>
__global__ void __launch_bounds__(kMapThreads)
    SubsampleKernel(const T* x, T* y, const MapShape in, const MapShape out) {
  const MapPlace at = PlaceOf<V>(out);
  if (!at.inside) return;
  float v[V];
  ReadVector<V>(x + Offset(in, at.n, at.y * 2, at.x * 2, at.c), v);
  WriteVector<V>(y + Offset(out, at.n, at.y, at.x, at.c), v);
}

template <typename T, int V>
__global__ void __launch_bounds__(kMapThreads)
    SubsampleGradKernel(const T* dy, T* dx, const MapShape in, const MapShape out) {
  const MapPlace at = PlaceOf<V>(in);
  if (!at.inside) return;
  float v[V] = {};
  if (at.y % 2 == 0 && at.x % 2 == 0) {
    ReadVector<V>(dy + Offset(out, at.n, at.y / 2, at.x / 2, at.c), v);
  }
  WriteVector<V>(dx + Offset(in, at.n, at.y, at.x, at.c), v);
}

}  // namespace

void UpsampleAdd(const void* top, const void* lateral, void* y, const MapShape& top_shape,
                 const MapShape& out, ElementType type, cudaStream_t stream) {
  if (out.empty()) return;
  DispatchVector(type, out.c, [&](auto zero, auto vector) {
    using T = decltype(zero);
    constexpr int V = decltype(vector)::value;
    UpsampleAddKernel<T, V><<<MapGrid(out, V), kMapThreads, 0, stream>>>(
        static_cast<const T*>(top), static_cast<const T*>(lateral), static_cast<T*>(y), top_shape,
        out);
  });
}

void UpsampleGrad(const void* dy, void* dtop, const MapShape& top_shape, const MapShape& out,
                  ElementType type, cudaStream_t stream) {
  if (top_shape.empty()) return;
  DispatchVector(type, out.c, [&](auto zero, auto vector) {
    using T = decltype(zero);
    constexpr int V = decltype(vector)::value;
    UpsampleGradKernel<T, V><<<MapGrid(top_shape, V), kMapThreads, 0, stream>>>(
        static_cast<const T*>(dy), static_cast<T*>(dtop), top_shape, out);
  });
}

void Subsample(const void* x, void* y, const MapShape& in, const MapShape& out, ElementType type,
               cudaStream_t stream) {
  if (out.empty()) return;
  DispatchVector(type, out.c, [&](auto zero, auto vector) {
    using T = decltype(zero);
    constexpr int V = decltype(vector)::value;
    SubsampleKernel<T, V><<<MapGrid(out, V), kMapThreads, 0, stream>>>(static_cast<const T*>(x),
                                                                       static_cast<T*>(y), in, out);
  });
}

void SubsampleGrad(const void* dy, void* dx, const MapShape& in, const MapShape& out,
                   ElementType type, cudaStream_t stream) {
  if (in.empty()) return;
  DispatchVector(type, in.c, [&](auto zero, auto vector) {
    using T = decltype(zero);
    constexpr int V = decltype(vector)::value;
    SubsampleGradKernel<T, V><<<MapGrid(in, V), kMapThreads, 0, stream>>>(
        static_cast<const T*>(dy), static_cast<T*>(dx), in, out);
  });
}

}  // namespace xp::kernels
