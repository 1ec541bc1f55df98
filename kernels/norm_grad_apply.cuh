// dx = c[0] * g + (c[1] * x + c[2]) with a channel's coefficients c: the second pass of batch
// norm's gradient, which norm_grad.cu and norm_grad_sums.cu share. Begins with the last rows, which
// the first pass has left in the L2 cache.
#pragma once

#include "kernels/norm_apply.cuh"

namespace xp::kernels {

// Rows that a thread keeps in flight in pass 1.
template <int V>
inline constexpr int kNormGradUnroll = V == 1 ? 4 : 2;

// Of both files' first pass, which add up in the same order. Two lines of 128 bytes a row: where a
// map is written too, 4 % faster than with one on an H200.
inline ColumnPlan PlanNormGradColumns(int64_t rows, int channels, ElementType type,
                                      int multiprocessors) {
  ColumnPlan plan;
  DispatchSixteenBytes(type, channels, [&](auto, auto vector) {
    constexpr int V = decltype(vector)::value;
    plan = PlanColumns(rows, channels, kNormGradUnroll<V>, multiprocessors, V, 16);
  });
  return plan;
}

// g[] = dy where the mask says so. `at`: the flat index of the first of the V elements.
template <int V>
__device__ inline void ApplyMask(float (&g)[V], unsigned bits) {
#pragma unroll
  for (int c = 0; c < V; ++c) g[c] = (bits >> c) & 1 ? g[c] : 0.0f;
}
template <int V>
__device__ inline unsigned MaskBits(const uint8_t* mask, int64_t at) {
  if (mask == nullptr) return ~0u;
  return V == 8 ? mask[at / 8] : static_cast<unsigned>(mask[at / 8]) >> (at % 8);
}

template <typename T>
struct NormGradApplyArgs {
  const T *dy, *x;
  const uint8_t* mask;        // or null
  const float* coefficients;  // [3][channels]
  T *dx, *dresidual;          // dresidual: the masked dy, or null
  int64_t rows;
  int channels;
};

template <typename T, bool kResidual, int kRows>
__global__ void __launch_bounds__(kApplyThreads)
    NormGradApplyOctets(const T* dy, const T* x, const uint8_t* mask, const float* coefficients,
                        T* dx, T* dresidual, int64_t rows, int channels) {
  const int octets = channels / 8;
  const int octet = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (octet >= octets) return;
  const int64_t first = static_cast<int64_t>(RowBlock(true)) * (blockDim.y * kRows) + threadIdx.y;
  Octet<T> raw_dy[kRows], raw_x[kRows];
  unsigned bits[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = first + r * blockDim.y;
    if (row >= rows) continue;
    const int64_t at = row * octets + octet;
    raw_dy[r] = LoadOctet(dy + at * 8);
    raw_x[r] = LoadOctet(x + at * 8);
    bits[r] = mask == nullptr ? 0xffu : mask[at];
  }
  float a[8], b[8], c[8];
  ReadOctet(coefficients + octet * 8, a);
  ReadOctet(coefficients + channels + octet * 8, b);
  ReadOctet(coefficients + 2 * channels + octet * 8, c);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = first + r * blockDim.y;
    if (row >= rows) continue;
    const int64_t at = row * octets + octet;
    float g[8], v[8];
    Unpack(raw_dy[r], g);
    Unpack(raw_x[r], v);
    ApplyMask(g, bits[r]);
    if (kResidual) StoreOctet(dresidual + at * 8, g);
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = a[k] * g[k] + (b[k] * v[k] + c[k]);
    StoreOctet(dx + at * 8, v);
  }
}

template <typename T>
__global__ void __launch_bounds__(kApplyThreads)
    NormGradApplyAny(const T* dy, const T* x, const uint8_t* mask, const float* coefficients, T* dx,
                     T* dresidual, int64_t n, int channels) {
  const int64_t i = static_cast<int64_t>(RowBlock(true)) * kApplyThreads + threadIdx.x;
  if (i >= n) return;
  const int c = static_cast<int>(i % channels);
  const float g = mask != nullptr && ((mask[i / 8] >> (i % 8)) & 1) == 0 ? 0.0f : ToFloat(dy[i]);
  if (dresidual != nullptr) dresidual[i] = FromFloat<T>(g);
  dx[i] = FromFloat<T>(coefficients[c] * g + (coefficients[channels + c] * ToFloat(x[i]) +
                                              coefficients[2 * channels + c]));
}

template <typename T>
void LaunchNormGradApply(const NormGradApplyArgs<T>& p, cudaStream_t stream) {
  if (p.rows == 0) return;
  if (p.channels % 8 != 0) {
    NormGradApplyAny<<<CeilDiv(p.rows * p.channels, kApplyThreads), kApplyThreads, 0, stream>>>(
        p.dy, p.x, p.mask, p.coefficients, p.dx, p.dresidual, p.rows * p.channels, p.channels);
    return;
  }
  constexpr int kRows = 2;
  const RowGrid g = PlanRows(p.rows, p.channels / 8, kRows);
  auto* kernel = p.dresidual != nullptr ? &NormGradApplyOctets<T, true, kRows>
                                        : &NormGradApplyOctets<T, false, kRows>;
  kernel<<<g.grid, g.block, 0, stream>>>(p.dy, p.x, p.mask, p.coefficients, p.dx, p.dresidual,
                                         p.rows, p.channels);
}

}  // namespace xp::kernels
