// y[pixel, channel] = windows [pixel, 7 x 24] weights [7 x 24, channel]
//
// Warp w has output rows 2 (w / 2) and the next of each unit and channels 32 (w % 2) to + 31, whose
// weights stay in its registers. In a warp's four products side by side, column n of product j
// stands for channel 8 (n / 2) + 2 j + n % 2: so a lane has eight neighbouring channels.
#include "kernels/stem_conv_kernels.h"
#include "kernels/stem_conv_units.cuh"

namespace xp::kernels {
namespace {

template <typename T>
struct StemArgs {
  const T *x, *w;
  const float* bias;
  T* y;
  StemShape shape;
  Units units;
  bool relu;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

constexpr int kStages = 4;
constexpr int kPieces = 7 * kWindow / 8;       // eights of a column of weights
constexpr int kWeightWords = kPieces * 4 + 1;  // a channel; odd, for the banks

// w [64, 7, 21] -> [64, 7, 24] with zeros before and after each row, in shared memory.
template <typename T>
__device__ inline void StageWeights(const T* w, unsigned* to) {
  for (int i = static_cast<int>(threadIdx.x); i < kStemChannels * kWeightWords; i += kThreads) {
    to[i] = 0;
  }
  constexpr int kOctets = kStemChannels * kWeights / 8;
  constexpr int kEach = (kOctets + kThreads - 1) / kThreads;
  Octet<T> octets[kEach];
#pragma unroll
  for (int u = 0; u < kEach; ++u) {
    const int i = static_cast<int>(threadIdx.x) + u * kThreads;
    if (i < kOctets) octets[u] = LoadOctet(w + i * 8);
  }
  __syncthreads();
  auto* elements = reinterpret_cast<uint16_t*>(to);
#pragma unroll
  for (int u = 0; u < kEach; ++u) {
    const int i = static_cast<int>(threadIdx.x) + u * kThreads;
    if (i >= kOctets) continue;
    const unsigned words[4] = {octets[u].q[0].x, octets[u].q[0].y, octets[u].q[0].z,
                               octets[u].q[0].w};
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int index = i * 8 + e, channel = index / kWeights, k = index % kWeights;
      elements[channel * kWeightWords * 2 + k / kWeightRow * kWindow + k % kWeightRow + 1] =
          static_cast<uint16_t>(words[e / 2] >> (e % 2 * 16));
    }
  }
  __syncthreads();
}

// The products of two output rows' 16 pixels. The 9 image rows under them make a column of 27
// eights; the second output row's windows lie 6 eights (two image rows) further than the first's.
template <typename T>
__device__ inline void Multiply(const unsigned* image, const unsigned (&w)[kPieces][4],
                                float (&sum)[2][4][4]) {
  constexpr int kSteps = kPieces / 2;  // of 16 deep; then one of 8
  auto read = [&](int piece, int right) {
    return image[piece / 3 * kRowWords + piece % 3 * 4 + right * 8 * kColumnWords];
  };
#pragma unroll
  for (int step = 0; step <= kSteps + 3; ++step) {
    unsigned a[4] = {read(2 * step, 0), read(2 * step, 1), 0, 0};
    if (step < kSteps + 3) {
      a[2] = read(2 * step + 1, 0);
      a[3] = read(2 * step + 1, 1);
    }
#pragma unroll
    for (int o = 0; o < 2; ++o) {
      const int s = step - 3 * o;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (s >= 0 && s < kSteps) {
          MultiplyAdd(sum[o][j], a[0], a[1], a[2], a[3], w[2 * s][j], w[2 * s + 1][j], T{});
        } else if (s == kSteps) {
          MultiplyAddHalf(sum[o][j], a[0], a[1], w[2 * s][j], T{});
        }
      }
    }
  }
}

// The compiler makes four stores of some of StoreOctet's here, of a fourth of a sector each.
template <typename T>
__device__ inline void StoreWhole(T* to, const Octet<T>& o) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"l"(to), "r"(o.q[0].x), "r"(o.q[0].y),
               "r"(o.q[0].z), "r"(o.q[0].w)
               : "memory");
}

template <typename T, bool kChunks>
__global__ void __launch_bounds__(kThreads, kBlocksAMultiprocessor)
    StemConvKernel(const __grid_constant__ StemArgs<T> p) {
  __shared__ alignas(16) T image[kStages][kImageRows * kRowWords * 2];
  __shared__ unsigned weights[kStemChannels * kWeightWords];
  Place next = FirstPlace(p.units);
  Place unit = next;
  auto load = [&](int stage) {
    if (next.image < p.shape.n) LoadImage<T, kChunks>(p.x, p.shape, next, image[stage]);
    CommitCopies();
    Advance(next, p.units);
  };
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) load(s);

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4, rows = warp / 2 * 2, channels = warp % 2 * 32;
  StageWeights(p.w, weights);
  unsigned w[kPieces][4];
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      w[piece][j] = weights[(channels + g / 2 * 8 + j * 2 + g % 2) * kWeightWords + piece * 4 + t];
    }
  }

  const int first_word = 2 * rows * kRowWords + kFirstWord + g * kColumnWords + t;
  const int channel = channels + t * 8;
  int stage = 0;
  for (; unit.image < p.shape.n; Advance(unit, p.units)) {
    WaitForCopies<kStages - 2>();
    __syncthreads();
    load((stage + kStages - 1) % kStages);

    float sum[2][4][4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float2 start{0.0f, 0.0f};
      if (p.bias != nullptr) start = *reinterpret_cast<const float2*>(p.bias + channel + j * 2);
#pragma unroll
      for (int o = 0; o < 2; ++o) {
        sum[o][j][0] = sum[o][j][2] = start.x;
        sum[o][j][1] = sum[o][j][3] = start.y;
      }
    }
    Multiply<T>(reinterpret_cast<const unsigned*>(image[stage]) + first_word, w, sum);
    stage = (stage + 1) % kStages;

    const int row = unit.row * kUnitRows + rows, column = unit.column * kUnitColumns + g;
    T* to = p.y +
            ((static_cast<int64_t>(unit.image) * p.shape.p + row) * p.shape.q + column) *
                kStemChannels +
            channel;
#pragma unroll
    for (int o = 0; o < 2; ++o) {
#pragma unroll
      for (int right = 0; right < 2; ++right) {
        if (row + o >= p.shape.p || column + right * 8 >= p.shape.q) continue;
        float v[8];
#pragma unroll
        for (int c = 0; c < 8; ++c) {
          v[c] = sum[o][c / 2][right * 2 + c % 2];
          if (p.relu) v[c] = fmaxf(v[c], 0.0f);
        }
        StoreWhole(to + (o * p.shape.q + right * 8) * kStemChannels, Pack(v, T{}));
      }
    }
  }
}

#else

template <typename T, bool kChunks>
__global__ void StemConvKernel(const __grid_constant__ StemArgs<T>) {}

#endif

}  // namespace

bool StemConvRuns() {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, StemConvKernel<__nv_bfloat16, true>) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.ptxVersion >= 80;
}

void StemConv(const void* x, const void* w, const float* bias, void* y, const StemShape& shape,
              bool relu, int multiprocessors, ElementType type, cudaStream_t stream) {
  if (type == ElementType::kF32) {
    StemConvTf32(static_cast<const float*>(x), static_cast<const float*>(w), bias,
                 static_cast<float*>(y), shape, relu, multiprocessors, stream);
    return;
  }
  const Units units = UnitsOf(shape, multiprocessors);
  if (units.count == 0) return;
  DispatchImage(x, shape, type, [&](auto zero, auto chunks) {
    using T = decltype(zero);
    const StemArgs<T> args{static_cast<const T*>(x),
                           static_cast<const T*>(w),
                           bias,
                           static_cast<T*>(y),
                           shape,
                           units,
                           relu};
    StemConvKernel<T, decltype(chunks)::value><<<units.blocks, kThreads, 0, stream>>>(args);
  });
}

}  // namespace xp::kernels
