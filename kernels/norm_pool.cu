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

// In pairs, which is faster than one by one.
template <typename T>
__device__ inline void Round(float (&v)[8]) {
  Unpack(Pack(v, T{}), v);
}

// Two neighbouring channels in a word, of 16-bit types: what their arithmetic needs.
template <typename T>
struct Pair;
template <>
struct Pair<__nv_bfloat16> {
  using Type = __nv_bfloat162;
  static constexpr unsigned kLeast = 0xff80ff80u;     // minus infinity
  static constexpr unsigned kTapBytes = 0x43434343u;  // 0x43xx is 128 + xx, and finite
};
template <>
struct Pair<__half> {
  using Type = __half2;
  static constexpr unsigned kLeast = 0xfc00fc00u;
  static constexpr unsigned kTapBytes = 0x64646464u;  // 0x64xx is 1024 + xx
};

template <typename T>
__device__ inline typename Pair<T>::Type AsPair(unsigned word) {
  return *reinterpret_cast<const typename Pair<T>::Type*>(&word);
}
template <typename P>
__device__ inline unsigned AsWord(P pair) {
  return *reinterpret_cast<const unsigned*>(&pair);
}
// All ones in the halves that are equal.
template <typename T>
__device__ inline unsigned EqualMask(unsigned a, unsigned b) {
  return __heq2_mask(AsPair<T>(a), AsPair<T>(b));
}
template <typename T>
__device__ inline const unsigned (&Words(const Octet<T>& o))[4] {
  return reinterpret_cast<const unsigned(&)[4]>(o.q[0]);
}

// The pixel of a window whose normalised value is the greatest, and its tap (a byte a channel).
// norm is monotone: that is the greatest x, or the greatest -x where the scale is negative
// (`sign`). Pixels outside the image aren't `inside`. NaN where there is one.
template <typename T>
__device__ inline void Greatest(const Octet<T> (&x)[9], unsigned inside, const float (&sign)[8],
                                float (&best)[8], uint2& taps) {
  unsigned tap[4];
  Octet<T> greatest;
  auto& words = reinterpret_cast<unsigned(&)[4]>(greatest.q[0]);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned flip =
        (sign[2 * i] < 0 ? 0x8000u : 0u) | (sign[2 * i + 1] < 0 ? 0x80000000u : 0u);
    unsigned keys[9];
#pragma unroll
    for (int k = 0; k < 9; ++k) {
      keys[k] = (inside >> k) & 1 ? Words(x[k])[i] ^ flip : Pair<T>::kLeast;
    }
    unsigned most = keys[0];
#pragma unroll
    for (int k = 1; k < 9; ++k) {
      most = AsWord(__hmax2_nan(AsPair<T>(most), AsPair<T>(keys[k])));
    }
    tap[i] = kNoTap * 0x10001u;
#pragma unroll
    for (int k = 8; k >= 0; --k) {  // the first of equals stays
      const unsigned equal = EqualMask<T>(keys[k], most);
      tap[i] = (equal & (static_cast<unsigned>(k) * 0x10001u)) | (~equal & tap[i]);
    }
    words[i] = most ^ flip;
  }
  Unpack(greatest, best);
  taps = make_uint2(__byte_perm(tap[0], tap[1], 0x6420), __byte_perm(tap[2], tap[3], 0x6420));
}

__device__ inline void Greatest(const Octet<float> (&x)[9], unsigned inside, const float (&sign)[8],
                                float (&best)[8], uint2& taps) {
  unsigned tap[8];
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    best[c] = -INFINITY;
    tap[c] = kNoTap;
  }
#pragma unroll
  for (int k = 0; k < 9; ++k) {
    if (((inside >> k) & 1) == 0) continue;
    float v[8];
    Unpack(x[k], v);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const float key = sign[c] < 0 ? -v[c] : v[c];
      const bool take = !(key <= best[c]) && best[c] == best[c];  // greater, or the first NaN
      best[c] = take ? key : best[c];
      tap[c] = take ? k : tap[c];
    }
  }
  taps = make_uint2(0, 0);
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    taps.x |= tap[c] << (8 * c);
    taps.y |= tap[4 + c] << (8 * c);
  }
#pragma unroll
  for (int c = 0; c < 8; ++c) best[c] = sign[c] < 0 ? -best[c] : best[c];
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads)
    NormPoolKernel(const __grid_constant__ NormPoolArgs p, const MapShape in, const MapShape out) {
  const MapPlace at = PlaceOf<8>(out);
  if (!at.inside) return;
  const auto* x = static_cast<const T*>(p.x);
  const int y0 = at.y * 2 - 1, x0 = at.x * 2 - 1;
  Octet<T> raw[9];
  unsigned inside = 0;
#pragma unroll
  for (int ky = 0; ky < 3; ++ky) {
    const bool row = y0 + ky >= 0 && y0 + ky < in.h;
    const T* from = x + Offset(in, at.n, y0 + ky, x0, at.c);
#pragma unroll
    for (int kx = 0; kx < 3; ++kx) {
      if (!row || x0 + kx < 0 || x0 + kx >= in.w) continue;
      raw[ky * 3 + kx] = LoadOctet(from + kx * in.c);
      inside |= 1u << (ky * 3 + kx);
    }
  }
  float mean[8], slope[8], bias[8], invstd[8], best[8];
  ReadOctet(p.mean + at.c, mean);
  ReadOctet(p.bias + at.c, bias);
  ReadOctet(p.scale + at.c, slope);
  ReadOctet(p.invstd + at.c, invstd);
  uint2 taps;
  Greatest(raw, inside, slope, best, taps);
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    const float z = (best[c] - mean[c]) * (slope[c] * invstd[c]) + bias[c];
    best[c] = z < 0 ? 0.0f : z;
  }
  Round<T>(best);
  const int64_t to = Offset(out, at.n, at.y, at.x, at.c);
  StoreOctet(static_cast<T*>(p.y) + to, best);
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (!(best[c] > 0)) taps.x |= static_cast<unsigned>(kNoTap) << (8 * c);
    if (!(best[4 + c] > 0)) taps.y |= static_cast<unsigned>(kNoTap) << (8 * c);
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
      Unpack(Flowing(w, tap), v);
#pragma unroll
      for (int c = 0; c < 8; ++c) g[c] += v[c];
    }
    if constexpr (kPixel != 0) {  // one alone is what it was
      Round<T>(g);
    }
  }

 private:
  // What flows from a window into the pixel at a tap.
  __device__ Octet<T> Flowing(int w, unsigned tap) const {
    Octet<T> o = dy[w];
    if constexpr (sizeof(T) == 2) {
      // Taps as numbers, two channels a word.
      constexpr unsigned kBytes = Pair<T>::kTapBytes;
      const unsigned which = (kBytes & 0xff00ff00u) | tap * 0x10001u;
      o.q[0].x &= EqualMask<T>(__byte_perm(taps[w].x, kBytes, 0x4140), which);
      o.q[0].y &= EqualMask<T>(__byte_perm(taps[w].x, kBytes, 0x4342), which);
      o.q[0].z &= EqualMask<T>(__byte_perm(taps[w].y, kBytes, 0x4140), which);
      o.q[0].w &= EqualMask<T>(__byte_perm(taps[w].y, kBytes, 0x4342), which);
    } else {
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const unsigned bytes = c < 4 ? taps[w].x : taps[w].y;
        if (((bytes >> (c % 4 * 8)) & 0xffu) != tap) {
          reinterpret_cast<unsigned(&)[8]>(o.q)[c] = 0;
        }
      }
    }
    return o;
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
