// Backward a thread has a quad of 2 x 2 input pixels, rows 2q and 2q + 1: with windows of three and
// a stride of two it depends on the outputs (q, q + 1) x (q, q + 1) only, and each of the four
// pixels on those whose tap is the one below. What flows into a pixel is rounded, as a max pool's
// gradient of its own would be.
#include "kernels/norm_pool.h"

#include "kernels/column_sums.cuh"
#include "kernels/map_grid.cuh"
#include "kernels/norm_apply.cuh"

namespace xp::kernels {
namespace {

constexpr int kNoTap = 255;

template <typename T>
__device__ inline float Round(float v) {
  return ToFloat(FromFloat<T>(v));
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads)
    NormPoolKernel(const __grid_constant__ NormPoolArgs p, const MapShape in, const MapShape out) {
  const MapPlace at = PlaceOf<8>(out);
  if (!at.inside) return;
  const auto* x = static_cast<const T*>(p.x);
  const int y0 = at.y * 2 - 1, x0 = at.x * 2 - 1;
  // norm is monotone: the maximum of the normalised values is that of x, or of -x where the scale
  // is negative.
  float sign[8], best[8];
  int tap[8];
  ReadOctet(p.scale + at.c, sign);
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    sign[c] = sign[c] < 0 ? -1.0f : 1.0f;
    best[c] = -INFINITY;
    tap[c] = kNoTap;
  }
#pragma unroll
  for (int ky = 0; ky < 3; ++ky) {
    Octet<T> raw[3];
    const bool row = y0 + ky >= 0 && y0 + ky < in.h;
    const T* from = x + Offset(in, at.n, y0 + ky, x0, at.c);
#pragma unroll
    for (int kx = 0; kx < 3; ++kx) {
      if (row && x0 + kx >= 0 && x0 + kx < in.w) raw[kx] = LoadOctet(from + kx * in.c);
    }
#pragma unroll
    for (int kx = 0; kx < 3; ++kx) {
      if (!row || x0 + kx < 0 || x0 + kx >= in.w) continue;
      float v[8];
      Unpack(raw[kx], v);
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const float key = v[c] * sign[c];
        const bool take = !(key <= best[c]) && best[c] == best[c];  // greater, or the first NaN
        best[c] = take ? key : best[c];
        tap[c] = take ? ky * 3 + kx : tap[c];
      }
    }
  }
  float mean[8], slope[8], bias[8], invstd[8];
  ReadOctet(p.mean + at.c, mean);
  ReadOctet(p.bias + at.c, bias);
  ReadOctet(p.scale + at.c, slope);
  ReadOctet(p.invstd + at.c, invstd);
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    const float z = (best[c] * sign[c] - mean[c]) * (slope[c] * invstd[c]) + bias[c];
    best[c] = Round<T>(z < 0 ? 0.0f : z);
  }
  const int64_t to = Offset(out, at.n, at.y, at.x, at.c);
  StoreOctet(static_cast<T*>(p.y) + to, best);
  uint2 taps = make_uint2(0, 0);
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    taps.x |= static_cast<unsigned>(best[c] > 0 ? tap[c] : kNoTap) << (8 * c);
    taps.y |= static_cast<unsigned>(best[4 + c] > 0 ? tap[4 + c] : kNoTap) << (8 * c);
  }
  *reinterpret_cast<uint2*>(p.argmax + to) = taps;
}

// A quad: its place, and what it depends on.
struct QuadPlace {
  int n, y, x;  // of the quad, in quads
};
__device__ inline QuadPlace QuadAt(int64_t index, const MapShape& out) {
  const int i = static_cast<int>(index);
  const int row = i / out.w;
  return {row / out.h, row % out.h, i - row * out.w};
}

template <typename T>
struct Quad {
  Octet<T> dy[4], x[4];
  uint2 taps[4];

  __device__ static bool Inside(const QuadPlace& q, const MapShape& in, int pixel) {
    return 2 * q.y + pixel / 2 < in.h && 2 * q.x + pixel % 2 < in.w;
  }
  __device__ static int64_t At(const QuadPlace& q, const MapShape& in, int pixel, int c) {
    return Offset(in, q.n, 2 * q.y + pixel / 2, 2 * q.x + pixel % 2, c);
  }

  __device__ void Load(const NormPoolGradArgs& p, const QuadPlace& q, const MapShape& in,
                       const MapShape& out, int c) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const int y = q.y + w / 2, x_at = q.x + w % 2;
      taps[w] = make_uint2(~0u, ~0u);
      if (y >= out.h || x_at >= out.w) continue;
      const int64_t at = Offset(out, q.n, y, x_at, c);
      taps[w] = *reinterpret_cast<const uint2*>(p.argmax + at);
      dy[w] = LoadOctet(static_cast<const T*>(p.dy) + at);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (Inside(q, in, i)) x[i] = LoadOctet(static_cast<const T*>(p.x) + At(q, in, i, c));
    }
  }

  // What flows into one pixel.
  template <int kPixel>
  __device__ void Gradient(float (&g)[8]) const {
    // The tap by which each window holds the pixel: -1, not at all.
    constexpr int kTaps[4][4] = {{4, -1, -1, -1}, {5, 3, -1, -1}, {7, -1, 1, -1}, {8, 6, 2, 0}};
#pragma unroll
    for (float& v : g) v = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if (kTaps[kPixel][w] < 0) continue;
      const auto tap = static_cast<unsigned>(kTaps[kPixel][w]);
      float v[8];
      Unpack(dy[w], v);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        g[c] += ((taps[w].x >> (8 * c)) & 0xffu) == tap ? v[c] : 0.0f;
        g[4 + c] += ((taps[w].y >> (8 * c)) & 0xffu) == tap ? v[4 + c] : 0.0f;
      }
    }
#pragma unroll
    for (float& v : g) v = Round<T>(v);
  }
};

// Calls body(pixel number, g) for the four pixels.
template <typename T, typename Body>
__device__ inline void ForPixels(const Quad<T>& quad, const Body& body) {
  float g[8];
  quad.template Gradient<0>(g);
  body(0, g);
  quad.template Gradient<1>(g);
  body(1, g);
  quad.template Gradient<2>(g);
  body(2, g);
  quad.template Gradient<3>(g);
  body(3, g);
}

template <typename T>
__global__ void __launch_bounds__(kColumnThreads, 1)
    QuadSums(const __grid_constant__ NormPoolGradArgs p, const MapShape in, const MapShape out,
             const __grid_constant__ Columns m, float* partial, unsigned* counters) {
  __shared__ float scratch[kColumnScratch<8, 2>];
  const int channel = ThreadChannel<8>();
  float sum[16] = {}, mean[8];
  if (channel < m.channels) {
    ReadOctet(p.mean + channel, mean);
    ForSpans<1>(m, [&](int64_t row, bool) {
      if (row >= m.rows) return;
      const QuadPlace place = QuadAt(row, out);
      Quad<T> quad;
      quad.Load(p, place, in, out, channel);
      ForPixels(quad, [&](int pixel, const float(&g)[8]) {
        if (!Quad<T>::Inside(place, in, pixel)) return;
        float v[8];
        Unpack(quad.x[pixel], v);
#pragma unroll
        for (int c = 0; c < 8; ++c) {
          sum[c] += g[c];
          sum[8 + c] += g[c] * (v[c] - mean[c]);
        }
      });
    });
  }
  AddRowLanes(sum, scratch);
  WritePartial<8, 2>(partial, m.parts, sum);
  if (!LastOfTile(counters, m.parts)) return;
  AddParts<8, 2>(
      partial, m, scratch,
      [](int, int, const float(&value)[2], float(&total)[2]) {
        total[0] += value[0];
        total[1] += value[1];
      },
      [&](int c, const float(&total)[2]) {
        const float invstd = p.invstd[c], dscale = total[1] * invstd;
        if (p.dbias != nullptr) p.dbias[c] = total[0];
        if (p.dscale != nullptr) p.dscale[c] = dscale;
        const float a = p.scale[c] * invstd;
        const float n = static_cast<float>(static_cast<int64_t>(in.n) * in.h * in.w);
        const float b = -a * invstd * (dscale / n);
        p.coefficients[c] = a;
        p.coefficients[m.channels + c] = b;
        p.coefficients[2 * m.channels + c] = -a * (total[0] / n) - b * p.mean[c];
      });
}

// Block dim3(octets of a pixel, quads), grid dim3(blocks of quads, tiles of channels).
template <typename T>
__global__ void __launch_bounds__(kApplyThreads)
    QuadApply(const __grid_constant__ NormPoolGradArgs p, const MapShape in, const MapShape out,
              int64_t quads) {
  const int octet = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  const int64_t index = static_cast<int64_t>(RowBlock(true)) * blockDim.y + threadIdx.y;
  if (octet * 8 >= in.c || index >= quads) return;
  const int channel = octet * 8;
  const QuadPlace place = QuadAt(index, out);
  Quad<T> quad;
  quad.Load(p, place, in, out, channel);
  float a[8], b[8], k[8];
  ReadOctet(p.coefficients + channel, a);
  ReadOctet(p.coefficients + in.c + channel, b);
  ReadOctet(p.coefficients + 2 * in.c + channel, k);
  ForPixels(quad, [&](int pixel, const float(&g)[8]) {
    if (!Quad<T>::Inside(place, in, pixel)) return;
    float v[8];
    Unpack(quad.x[pixel], v);
#pragma unroll
    for (int c = 0; c < 8; ++c) v[c] = a[c] * g[c] + (b[c] * v[c] + k[c]);
    StoreOctet(static_cast<T*>(p.dx) + Quad<T>::At(place, in, pixel, channel), v);
  });
}

int64_t Quads(const MapShape& out) { return static_cast<int64_t>(out.n) * out.h * out.w; }

}  // namespace

void NormPool(const NormPoolArgs& args, const MapShape& in, const MapShape& out, ElementType type,
              cudaStream_t stream) {
  if (out.empty()) return;
  Dispatch(type, [&](auto zero) {
    NormPoolKernel<decltype(zero)><<<MapGrid(out, 8), kMapThreads, 0, stream>>>(args, in, out);
  });
}

ColumnPlan PlanNormPoolSums(const MapShape& in, int multiprocessors) {
  const int64_t quads = static_cast<int64_t>(in.n) * ((in.h + 1) / 2) * ((in.w + 1) / 2);
  return PlanColumns(quads, in.c, 1, multiprocessors);
}

void NormPoolSums(const NormPoolGradArgs& args, const MapShape& in, const MapShape& out,
                  const ColumnPlan& plan, void* scratch, unsigned* counters, ElementType type,
                  cudaStream_t stream) {
  if (in.empty()) return;
  Dispatch(type, [&](auto zero) {
    QuadSums<decltype(zero)><<<ColumnGrid(plan), ColumnBlock(plan), 0, stream>>>(
        args, in, out, AsColumns(plan), static_cast<float*>(scratch), counters);
  });
}

void NormPoolGrad(const NormPoolGradArgs& args, const MapShape& in, const MapShape& out,
                  ElementType type, cudaStream_t stream) {
  if (in.empty()) return;
  const RowGrid g = PlanRows(Quads(out), in.c / 8, 1);
  Dispatch(type, [&](auto zero) {
    QuadApply<decltype(zero)><<<g.grid, g.block, 0, stream>>>(args, in, out, Quads(out));
  });
}

}  // namespace xp::kernels
