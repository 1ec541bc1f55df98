// One branch alone is the second pass of a batch norm (norm_apply.cuh); two, or one with a gate,
// are applied here.
#include "kernels/norm_join.h"

#include "kernels/norm_apply.cuh"

namespace xp::kernels {
namespace {

// What one branch adds to v: gate * ((x - mean) * scale * invstd + bias), of kRows rows at once, so
// that its coefficients are read once and needn't stay.
template <int kRows, typename T>
__device__ inline void AddBranch(const NormBranch& b, int channel, const Octet<T> (&x)[kRows],
                                 const float (&gate)[kRows][8], float (&v)[kRows][8]) {
  float mean[8], slope[8], bias[8], invstd[8];
  ReadOctet(b.mean + channel, mean);
  ReadOctet(b.bias + channel, bias);
  ReadOctet(b.scale + channel, slope);
  ReadOctet(b.invstd + channel, invstd);
#pragma unroll
  for (int c = 0; c < 8; ++c) slope[c] *= invstd[c];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float e[8];
    Unpack(x[r], e);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      v[r][c] += ((e[c] - mean[c]) * slope[c] + bias[c]) * gate[r][c];
    }
  }
}

// In 16 bits three blocks a multiprocessor of three rows a thread: 4.4 TB/s of two branches on an
// H200 and 3.8 with a gate. With four rows and as many registers as they take it was 3.2 and 2.2.
template <typename T>
inline constexpr int kBlocks = sizeof(T) == 2 ? 3 : 1;

// Channels divisible by eight; block dim3(octets of a row, rows), grid dim3(blocks of rows, tiles).
template <int kRows, bool kPair, bool kGate, typename T>
__global__ void __launch_bounds__(kApplyThreads, kBlocks<T>)
    JoinOctets(const __grid_constant__ NormJoinArgs p, int64_t rows, int channels) {
  const int octets = channels / 8;
  const int octet = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (octet >= octets) return;
  const int64_t first = static_cast<int64_t>(RowBlock(true)) * (blockDim.y * kRows) + threadIdx.y;
  const auto *xa = static_cast<const T*>(p.a.x), *xb = static_cast<const T*>(p.b.x);
  const auto* residual = static_cast<const T*>(p.residual);
  Octet<T> raw_a[kRows], raw_b[kRows], raw_r[kRows];
  float v[kRows][8] = {}, gate[kRows][8];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = first + r * blockDim.y;
    if (row >= rows) continue;
    const int64_t at = (row * octets + octet) * 8;
    raw_a[r] = LoadOctet(xa + at);
    if (kPair) raw_b[r] = LoadOctet(xb + at);
    if (!kPair && residual != nullptr) raw_r[r] = LoadOctet(residual + at);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (float& e : gate[r]) e = 1;
    const int64_t row = first + r * blockDim.y;
    if (!kGate || row >= rows) continue;
    ReadOctet(static_cast<const T*>(p.gate) + row / p.pixels * channels + octet * 8, gate[r]);
  }
  AddBranch(p.a, octet * 8, raw_a, gate, v);
  if (kPair) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (float& e : gate[r]) e = 1;
    }
    AddBranch(p.b, octet * 8, raw_b, gate, v);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = first + r * blockDim.y;
    if (row >= rows) continue;
    const int64_t at = row * octets + octet;
    if (residual != nullptr) {
      float w[8];
      if (kPair) raw_r[r] = LoadOctet(residual + at * 8);  // seldom there
      Unpack(raw_r[r], w);
#pragma unroll
      for (int c = 0; c < 8; ++c) v[r][c] += w[c];
    }
    if (p.relu) {
#pragma unroll
      for (float& e : v[r]) e = e < 0 ? 0.0f : e;
    }
    const Octet<T> y = Pack(v[r], T{});
    StoreOctet(static_cast<T*>(p.y) + at * 8, y);
    if (p.mask == nullptr) continue;
    float rounded[8];
    Unpack(y, rounded);  // the mask is that of the rounded output
    unsigned bits = 0;
#pragma unroll
    for (int c = 0; c < 8; ++c) bits |= rounded[c] > 0 ? 1u << c : 0u;
    p.mask[at] = static_cast<uint8_t>(bits);
  }
}

template <typename T>
void LaunchJoin(const NormJoinArgs& args, int64_t rows, int channels, cudaStream_t stream) {
  constexpr int kRows = sizeof(T) == 2 ? 3 : 2;
  const RowGrid g = PlanRows(rows, channels / 8, kRows);
  auto* kernel = args.b.x == nullptr    ? &JoinOctets<kRows, false, true, T>
                 : args.gate != nullptr ? &JoinOctets<kRows, true, true, T>
                                        : &JoinOctets<kRows, true, false, T>;
  kernel<<<g.grid, g.block, 0, stream>>>(args, rows, channels);
}

// Any channel count: a thread has eight neighbouring elements, a byte of the mask.
template <typename T>
__global__ void __launch_bounds__(kApplyThreads)
    PairAny(const __grid_constant__ NormJoinArgs p, int64_t n, int channels) {
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) * kApplyThreads + threadIdx.x) * 8;
  if (begin >= n) return;
  auto one = [](const NormBranch& b, int64_t i, int c) {
    return (ToFloat(static_cast<const T*>(b.x)[i]) - b.mean[c]) * (b.scale[c] * b.invstd[c]) +
           b.bias[c];
  };
  unsigned bits = 0;
  int c = static_cast<int>(begin % channels);
  for (int k = 0; k < 8 && begin + k < n; ++k, c = c + 1 == channels ? 0 : c + 1) {
    const int64_t i = begin + k;
    float v = one(p.a, i, c);
    if (p.gate != nullptr) {
      v *= ToFloat(static_cast<const T*>(p.gate)[i / channels / p.pixels * channels + c]);
    }
    if (p.b.x != nullptr) v += one(p.b, i, c);
    if (p.residual != nullptr) v += ToFloat(static_cast<const T*>(p.residual)[i]);
    if (p.relu) v = v < 0 ? 0.0f : v;
    const T y = FromFloat<T>(v);
    static_cast<T*>(p.y)[i] = y;
    bits |= ToFloat(y) > 0 ? 1u << k : 0u;
  }
  if (p.mask != nullptr) p.mask[begin / 8] = static_cast<uint8_t>(bits);
}

}  // namespace

void NormJoin(const NormJoinArgs& args, int64_t rows, int channels, ElementType type,
              cudaStream_t stream) {
  if (rows == 0 || channels == 0) return;
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    if (args.b.x == nullptr && args.gate == nullptr) {
      LaunchNormApply<false, T>({.x = static_cast<const T*>(args.a.x),
                                 .residual = static_cast<const T*>(args.residual),
                                 .y = static_cast<T*>(args.y),
                                 .mask = args.mask,
                                 .scale = args.a.scale,
                                 .bias = args.a.bias,
                                 .mean = args.a.mean,
                                 .spread = args.a.invstd,
                                 .eps = 0,
                                 .relu = args.relu,
                                 .from_end = true,
                                 .rows = rows,
                                 .channels = channels},
                                stream);
    } else if (channels % 8 != 0) {
      PairAny<T><<<CeilDiv(rows * channels, kApplyThreads * 8), kApplyThreads, 0, stream>>>(
          args, rows * channels, channels);
    } else {
      LaunchJoin<T>(args, rows, channels, stream);
    }
  });
}

}  // namespace xp::kernels
