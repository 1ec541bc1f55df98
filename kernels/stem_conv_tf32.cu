// stem_conv.cu in fp32 with products in tf32.
//
// Warp w has all four output rows of a unit and channels 16 w to + 15, whose weights stay in its
// registers. Row g of a product's 16 stands for column 2 g, row g + 8 for column 2 g + 1: the eight
// windows that a warp reads at once lie 12 words apart, all in different banks. Column n of product
// j stands for channel 4 (n / 2) + 2 j + n % 2: so a lane has four neighbouring channels.
#include "kernels/stem_conv_kernels.h"
#include "kernels/stem_conv_units.cuh"

namespace xp::kernels {
namespace {

struct StemTf32Args {
  const float *x, *w, *bias;
  float* y;
  StemShape shape;
  Units units;
  bool relu;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

constexpr int kStages = 4;
constexpr int kWeightRows = 7, kSteps = kWindow / 8;  // of a window, 8 deep
constexpr int kChannels = 16;                         // of a warp
using WarpWeights = float[kWeightRows][kSteps][2][2];

__device__ inline void ReadWeights(const float* w, int g, int t, WarpWeights& to) {
#pragma unroll
  for (int r = 0; r < kWeightRows; ++r) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int channel = g / 2 * 4 + j * 2 + g % 2, element = s * 8 + k * 4 + t;
          const float v =
              element < kWeightRow ? w[channel * kWeights + r * kWeightRow + element] : 0.0f;
          to[r][s][j][k] = ToTf32(v);
        }
      }
    }
  }
}

// The products of a unit's four output rows. Image row i lies under weight row i - 2 o of output
// row o.
__device__ inline void Multiply(const float* image, const WarpWeights& w,
                                float (&sum)[kUnitRows][2][4]) {
#pragma unroll
  for (int i = 0; i < kImageRows; ++i) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const float* at = image + i * kRowElements<float> + s * 8;
      const float a[4] = {at[0], at[6], at[4], at[10]};
#pragma unroll
      for (int o = 0; o < kUnitRows; ++o) {
        const int r = i - 2 * o;
        if (r < 0 || r >= kWeightRows) continue;
        MultiplyAdd(sum[o][0], a, w[r][s][0]);
        MultiplyAdd(sum[o][1], a, w[r][s][1]);
      }
    }
  }
}

template <bool kChunks>
__global__ void __launch_bounds__(kThreads, kBlocksAMultiprocessor)
    StemConvTf32Kernel(const __grid_constant__ StemTf32Args p) {
  __shared__ alignas(16) float image[kStages][kImageRows * kRowElements<float>];
  Place next = FirstPlace(p.units);
  Place unit = next;
  auto load = [&](int stage) {
    if (next.image < p.shape.n) LoadImage<float, kChunks>(p.x, p.shape, next, image[stage]);
    CommitCopies();
    Advance(next, p.units);
  };
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) load(s);

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4, channel = warp * kChannels + t * 4;
  WarpWeights w;
  ReadWeights(p.w + warp * kChannels * kWeights, g, t, w);
  const int first = kFirstElement<float> + g * 12 + t;
  int stage = 0;
  for (; unit.image < p.shape.n; Advance(unit, p.units)) {
    WaitForCopies<kStages - 2>();
    RoundImage<kChunks>(image[stage]);
    __syncthreads();
    load((stage + kStages - 1) % kStages);

    float4 start = make_float4(0, 0, 0, 0);
    if (p.bias != nullptr) start = *reinterpret_cast<const float4*>(p.bias + channel);
    float sum[kUnitRows][2][4];
#pragma unroll
    for (int o = 0; o < kUnitRows; ++o) {
      sum[o][0][0] = sum[o][0][2] = start.x;
      sum[o][0][1] = sum[o][0][3] = start.y;
      sum[o][1][0] = sum[o][1][2] = start.z;
      sum[o][1][1] = sum[o][1][3] = start.w;
    }
    Multiply(image[stage] + first, w, sum);
    stage = (stage + 1) % kStages;

    const int row = unit.row * kUnitRows, column = unit.column * kUnitColumns + g * 2;
    float* to = p.y +
                ((static_cast<int64_t>(unit.image) * p.shape.p + row) * p.shape.q + column) *
                    kStemChannels +
                channel;
#pragma unroll
    for (int o = 0; o < kUnitRows; ++o) {
#pragma unroll
      for (int right = 0; right < 2; ++right) {
        if (row + o >= p.shape.p || column + right >= p.shape.q) continue;
        float v[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          v[c] = sum[o][c / 2][right * 2 + c % 2];
          if (p.relu) v[c] = fmaxf(v[c], 0.0f);
        }
        *reinterpret_cast<float4*>(to + (o * p.shape.q + right) * kStemChannels) =
            make_float4(v[0], v[1], v[2], v[3]);
      }
    }
  }
}

#else

template <bool kChunks>
__global__ void StemConvTf32Kernel(const __grid_constant__ StemTf32Args) {}

#endif

}  // namespace

void StemConvTf32(const float* x, const float* w, const float* bias, float* y,
                  const StemShape& shape, bool relu, int multiprocessors, cudaStream_t stream) {
  const Units units = UnitsOf(shape, multiprocessors);
  if (units.count == 0) return;
  const StemTf32Args args{x, w, bias, y, shape, units, relu};
  DispatchChunks<float>(x, shape, [&](auto chunks) {
    StemConvTf32Kernel<decltype(chunks)::value><<<units.blocks, kThreads, 0, stream>>>(args);
  });
}

}  // namespace xp::kernels
