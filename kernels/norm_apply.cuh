// y = relu?(scale * (x - mean) * invstd + bias + residual) and its ReLU's bit mask: the pass that
// batch normalisation (batch_norm.cu) and normalisation with fixed statistics (affine.cu) share.
// Moves 2 (with a residual 3) times the elements, and an eighth of a byte an element of mask.
#pragma once

#include "kernels/row_grid.cuh"

namespace xp::kernels {

template <typename T>
struct NormApply {
  const T* x;
  const T* residual;  // or null
  T* y;
  uint8_t* mask;  // or null
  const float *scale, *bias, *mean;
  const float* spread;  // 1 / standard deviation, or the variance (kVariance below)
  float eps;
  bool relu;
  bool from_end;  // begin with the last rows, which the pass before has left in the L2 cache
  int64_t rows;
  int channels;
};

template <bool kVariance>
__device__ inline float Slope(float scale, float spread, float eps) {
  return scale * (kVariance ? 1.0f / sqrtf(spread + eps) : spread);
}

__device__ inline unsigned RowBlock(bool from_end) {
  return from_end ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
}

// Channels divisible by eight: a thread has eight channels of kRows rows. Block dim3(octets of a
// row, rows), grid dim3(blocks of rows, tiles of channels).
template <bool kVariance, bool kResidual, int kRows, typename T>
__global__ void __launch_bounds__(kApplyThreads)
    NormApplyOctets(const __grid_constant__ NormApply<T> p) {
  const int octets = p.channels / 8;
  const int octet = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (octet >= octets) return;
  const int64_t first =
      static_cast<int64_t>(RowBlock(p.from_end)) * (blockDim.y * kRows) + threadIdx.y;
  Octet<T> x[kRows], residual[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = first + r * blockDim.y;
    if (row >= p.rows) continue;
    const int64_t at = row * octets + octet;
    x[r] = LoadOctet(p.x + at * 8);
    if (kResidual) residual[r] = LoadOctet(p.residual + at * 8);
  }
  float mean[8], slope[8], bias[8], spread[8];
  ReadOctet(p.mean + octet * 8, mean);
  ReadOctet(p.bias + octet * 8, bias);
  ReadOctet(p.scale + octet * 8, slope);
  ReadOctet(p.spread + octet * 8, spread);
#pragma unroll
  for (int c = 0; c < 8; ++c) slope[c] = Slope<kVariance>(slope[c], spread[c], p.eps);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = first + r * blockDim.y;
    if (row >= p.rows) continue;
    const int64_t at = row * octets + octet;
    float v[8], add[8];
    Unpack(x[r], v);
    if (kResidual) Unpack(residual[r], add);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      v[c] = (v[c] - mean[c]) * slope[c] + bias[c];
      if (kResidual) v[c] += add[c];
      if (p.relu) v[c] = v[c] < 0 ? 0.0f : v[c];
    }
    const Octet<T> y = Pack(v, T{});
    StoreOctet(p.y + at * 8, y);
    if (p.mask == nullptr) continue;
    Unpack(y, v);  // the mask is that of the rounded output
    unsigned bits = 0;
#pragma unroll
    for (int c = 0; c < 8; ++c) bits |= v[c] > 0 ? 1u << c : 0u;
    p.mask[at] = static_cast<uint8_t>(bits);
  }
}

// Any channel count: a thread has eight neighbouring elements, a byte of the mask.
template <bool kVariance, typename T>
__global__ void __launch_bounds__(kApplyThreads)
    NormApplyAny(const __grid_constant__ NormApply<T> p) {
  const int64_t n = p.rows * p.channels;
  const int64_t begin =
      (static_cast<int64_t>(RowBlock(p.from_end)) * kApplyThreads + threadIdx.x) * 8;
  if (begin >= n) return;
  unsigned bits = 0;
  int c = static_cast<int>(begin % p.channels);
  for (int k = 0; k < 8 && begin + k < n; ++k, c = c + 1 == p.channels ? 0 : c + 1) {
    const int64_t i = begin + k;
    const float slope = Slope<kVariance>(p.scale[c], p.spread[c], p.eps);
    float v = (ToFloat(p.x[i]) - p.mean[c]) * slope + p.bias[c];
    if (p.residual != nullptr) v += ToFloat(p.residual[i]);
    if (p.relu) v = v < 0 ? 0.0f : v;
    const T y = FromFloat<T>(v);
    p.y[i] = y;
    bits |= ToFloat(y) > 0 ? 1u << k : 0u;
  }
  if (p.mask != nullptr) p.mask[begin / 8] = static_cast<uint8_t>(bits);
}

template <bool kVariance, typename T>
void LaunchNormApply(const NormApply<T>& p, cudaStream_t stream) {
  if (p.channels % 8 != 0) {
    const unsigned blocks = CeilDiv(p.rows * p.channels, kApplyThreads * 8);
    NormApplyAny<kVariance><<<blocks, kApplyThreads, 0, stream>>>(p);
  } else if (p.residual != nullptr) {
    constexpr int kRows = 2;
    const RowGrid g = PlanRows(p.rows, p.channels / 8, kRows);
    NormApplyOctets<kVariance, true, kRows><<<g.grid, g.block, 0, stream>>>(p);
  } else {
    constexpr int kRows = sizeof(T) == 2 ? 4 : 2;
    const RowGrid g = PlanRows(p.rows, p.channels / 8, kRows);
    NormApplyOctets<kVariance, false, kRows><<<g.grid, g.block, 0, stream>>>(p);
  }
}

}  // namespace xp::kernels
