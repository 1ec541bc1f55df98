// Forward: a thread reads the window of its output pixel; neighbours share most of it through the
// L1 cache. Backward gathers: each input pixel adds the gradients of the windows whose maximum it
// was, in their order, so no two threads write to one place.
#include "kernels/max_pool.h"

#include "kernels/map_grid.cuh"

namespace xp::kernels {
namespace {

// kKernel 0: known only when running.
template <typename T, int V, int kKernel>
__global__ void __launch_bounds__(kMapThreads)
    MaxPoolKernel(const T* x, T* y, uint8_t* argmax, const MapShape in, const MapShape out,
                  const PoolWindow window) {
  const MapPlace at = PlaceOf<V>(out);
  if (!at.inside) return;
  const int kernel = kKernel > 0 ? kKernel : window.kernel;
  const int y0 = at.y * window.stride - window.pad, x0 = at.x * window.stride - window.pad;
  float best[V];
  int tap[V];
#pragma unroll
  for (int c = 0; c < V; ++c) {
    best[c] = -INFINITY;
    tap[c] = max(0, -y0) * kernel + max(0, -x0);
  }
#pragma unroll
  for (int ky = 0; ky < kernel; ++ky) {
    Raw<V, T> raw[kKernel > 0 ? kKernel : 1];
    const bool row = y0 + ky >= 0 && y0 + ky < in.h;
    const T* from = x + Offset(in, at.n, y0 + ky, x0, at.c);
    if (kKernel > 0) {
#pragma unroll
      for (int kx = 0; kx < kKernel; ++kx) {
        if (row && x0 + kx >= 0 && x0 + kx < in.w) raw[kx] = LoadRaw<V>(from + kx * in.c);
      }
    }
#pragma unroll
    for (int kx = 0; kx < kernel; ++kx) {
      if (!row || x0 + kx < 0 || x0 + kx >= in.w) continue;
      float v[V];
      if (kKernel > 0) {
        Unpack(raw[kKernel > 0 ? kx : 0], v);
      } else {
        ReadVector<V>(from + kx * in.c, v);
      }
#pragma unroll
      for (int c = 0; c < V; ++c) {  // greater, or the first NaN
        const bool take = !(v[c] <= best[c]) && best[c] == best[c];
        best[c] = take ? v[c] : best[c];
        tap[c] = take ? ky * kernel + kx : tap[c];
      }
    }
  }
  const int64_t to = Offset(out, at.n, at.y, at.x, at.c);
  WriteVector<V>(y + to, best);
  if (argmax == nullptr) return;
  if constexpr (V == 8) {
    uint2 taps = make_uint2(0, 0);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      taps.x |= static_cast<unsigned>(tap[c]) << (8 * c);
      taps.y |= static_cast<unsigned>(tap[4 + c]) << (8 * c);
    }
    *reinterpret_cast<uint2*>(argmax + to) = taps;
  } else {
    argmax[to] = static_cast<uint8_t>(tap[0]);
  }
}

// The windows that hold a coordinate: [first, last].
__device__ inline void Windows(int at, int count, const PoolWindow& w, int& first, int& last) {
  const int low = at + w.pad - w.kernel + 1;
  first = low <= 0 ? 0 : (low + w.stride - 1) / w.stride;
  last = min(count - 1, (at + w.pad) / w.stride);
}

template <typename T, int V>
__global__ void __launch_bounds__(kMapThreads)
    MaxPoolGradKernel(const T* dy, const uint8_t* argmax, T* dx, const MapShape in,
                      const MapShape out, const PoolWindow window) {
  const MapPlace at = PlaceOf<V>(in);
  if (!at.inside) return;
  int oy0, oy1, ox0, ox1;
  Windows(at.y, out.h, window, oy0, oy1);
  Windows(at.x, out.w, window, ox0, ox1);
  float sum[V] = {};
  for (int oy = oy0; oy <= oy1; ++oy) {
    const int ky = at.y + window.pad - oy * window.stride;
    for (int ox = ox0; ox <= ox1; ++ox) {
      const unsigned tap =
          static_cast<unsigned>(ky * window.kernel + at.x + window.pad - ox * window.stride);
      const int64_t from = Offset(out, at.n, oy, ox, at.c);
      float g[V];
      if constexpr (V == 8) {
        const uint2 taps = *reinterpret_cast<const uint2*>(argmax + from);
        ReadVector<V>(dy + from, g);
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          sum[c] += ((taps.x >> (8 * c)) & 0xffu) == tap ? g[c] : 0.0f;
          sum[4 + c] += ((taps.y >> (8 * c)) & 0xffu) == tap ? g[4 + c] : 0.0f;
        }
      } else {
        if (argmax[from] == tap) sum[0] += ToFloat(dy[from]);
      }
    }
  }
  WriteVector<V>(dx + Offset(in, at.n, at.y, at.x, at.c), sum);
}

}  // namespace

void MaxPool(const void* x, void* y, uint8_t* argmax, const MapShape& in, const MapShape& out,
             const PoolWindow& window, ElementType type, cudaStream_t stream) {
  if (out.empty()) return;
  DispatchVector(type, out.c, [&](auto zero, auto vector) {
    using T = decltype(zero);
    constexpr int V = decltype(vector)::value;
    auto* kernel = window.kernel == 3   ? &MaxPoolKernel<T, V, 3>
                   : window.kernel == 2 ? &MaxPoolKernel<T, V, 2>
                                        : &MaxPoolKernel<T, V, 0>;
    kernel<<<MapGrid(out, V), kMapThreads, 0, stream>>>(
        static_cast<const T*>(x), static_cast<T*>(y), argmax, in, out, window);
  });
}

void MaxPoolGrad(const void* dy, const uint8_t* argmax, void* dx, const MapShape& in,
                 const MapShape& out, const PoolWindow& window, ElementType type,
                 cudaStream_t stream) {
  if (in.empty()) return;
  DispatchVector(type, in.c, [&](auto zero, auto vector) {
    using T = decltype(zero);
    constexpr int V = decltype(vector)::value;
    MaxPoolGradKernel<T, V><<<MapGrid(in, V), kMapThreads, 0, stream>>>(
        static_cast<const T*>(dy), argmax, static_cast<T*>(dx), in, out, window);
  });
}

}  // namespace xp::kernels
