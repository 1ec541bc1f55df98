// stem_conv_grad.cu in fp32 with products in tf32.
//
// Rows g and g + 8 of a tile (stem_conv_grad_sums.cuh) are elements g and g + 8; of a tile of two
// rows' last elements, element 16 + g of both. A product sums over eight pixels of a row: columns
// 4 t + 2 s and the next, so that a warp's reads of windows are 24 words apart, in different banks.
#include "kernels/stem_conv_grad_sums.cuh"
#include "kernels/stem_conv_kernels.h"

namespace xp::kernels {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

constexpr int kStages = 2;
constexpr int kPixelQuads = kStemChannels / 4;

struct Stage {
  float image[(kImageRows + 1) * kRowElements<float>];  // row 13: of weight row 7, never written
  float dy[kUnitPixels * kStemChannels];
};

// Where the quad of four channels of a unit's pixel lies: those of columns 4 apart in different
// banks.
__device__ inline int Swizzled(int pixel, int quad) {
  return (pixel * kPixelQuads + (quad ^ (pixel % kUnitColumns / 4 * 2))) * 4;
}

// Calls body(pixel of the unit, quad of channels) for those that are this thread's.
template <typename Body>
__device__ inline void EachQuadOfGradient(Body&& body) {
  const int quad = static_cast<int>(threadIdx.x) % kPixelQuads;
  const int first = static_cast<int>(threadIdx.x) / kPixelQuads;
#pragma unroll
  for (int pixel = 0; pixel < kUnitPixels; pixel += kThreads / kPixelQuads) {
    body(pixel + first, quad);
  }
}

__device__ inline void LoadGradient(const float* dy, const StemShape& s, const Place& unit,
                                    float* to) {
  const int row = unit.row * kUnitRows, column = unit.column * kUnitColumns;
  const float* from =
      dy + ((static_cast<int64_t>(unit.image) * s.p + row) * s.q + column) * kStemChannels;
  EachQuadOfGradient([&](int pixel, int quad) {
    const int down = pixel / kUnitColumns, right = pixel % kUnitColumns;
    const bool inside = row + down < s.p && column + right < s.q;
    const float* source = from + (down * s.q + right) * kStemChannels + quad * 4;
    CopyAsync(SharedAddress(to + Swizzled(pixel, quad)), inside ? source : dy, inside);
  });
}

// Adds a unit's products. `image`: this lane's first window element, `dy`: its channels in column
// 4 t of both products' eights. Image row i lies under weight row i - 2 o of output row o.
__device__ inline void AddProducts(const float* image, const float* const (&dy)[2],
                                   float (&rows)[kRowTiles][2][4],
                                   float (&pairs)[kPairTiles][2][4]) {
  constexpr int kRow = kRowElements<float>, kColumn = 2 * kColumnWords;
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    float b[kUnitRows][2][2];
#pragma unroll
    for (int o = 0; o < kUnitRows; ++o) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float* at = dy[j] + (o * kUnitColumns + 2 * s) * kStemChannels;
        b[o][j][0] = at[0];
        b[o][j][1] = at[kStemChannels];
      }
    }
#pragma unroll
    for (int i = 0; i < kImageRows; ++i) {
      const float* at = image + i * kRow + 2 * s * kColumn;
      const float a[4] = {at[0], at[8], at[kColumn], at[kColumn + 8]};
#pragma unroll
      for (int o = 0; o < kUnitRows; ++o) {
        const int r = i - 2 * o;
        if (r < 0 || r >= kRowTiles) continue;
        MultiplyAdd(rows[r][0], a, b[o][0]);
        MultiplyAdd(rows[r][1], a, b[o][1]);
      }
      if (i % 2 != 0) continue;
      const float pair[4] = {at[16], at[kRow + 16], at[kColumn + 16], at[kRow + kColumn + 16]};
#pragma unroll
      for (int o = 0; o < kUnitRows; ++o) {
        const int j = i / 2 - o;
        if (j < 0 || j >= kPairTiles) continue;
        MultiplyAdd(pairs[j][0], pair, b[o][0]);
        MultiplyAdd(pairs[j][1], pair, b[o][1]);
      }
    }
  }
}

template <bool kChunks>
__global__ void __launch_bounds__(kThreads, kBlocksAMultiprocessor)
    StemConvGradTf32Kernel(const __grid_constant__ StemGradArgs<float> p) {
  __shared__ alignas(16) Stage stages[kStages];
  Place next = FirstPlace(p.units);
  Place unit = next;
  auto load = [&](int stage) {
    if (next.image < p.shape.n) {
      LoadImage<float, kChunks>(p.x, p.shape, next, stages[stage].image);
      LoadGradient(p.dy, p.shape, next, stages[stage].dy);
    }
    CommitCopies();
    Advance(next, p.units);
  };
  load(0);

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4;
  const int first = kFirstElement<float> + t * 4 * 2 * kColumnWords + g;
  const int quad = warp * 4 + g / 4;
  const int dy_at[2] = {Swizzled(4 * t, quad) + g % 4, Swizzled(4 * t, quad + 2) + g % 4};
  float rows[kRowTiles][2][4] = {}, pairs[kPairTiles][2][4] = {};
  int stage = 0;
  for (; unit.image < p.shape.n; Advance(unit, p.units)) {
    WaitForCopies<0>();
    float* dy = stages[stage].dy;
    RoundImage<kChunks>(stages[stage].image);
    EachQuadOfGradient([&](int pixel, int of) { RoundQuad(dy + Swizzled(pixel, of)); });
    __syncthreads();
    load(1 - stage);
    const float* const channels[2] = {dy + dy_at[0], dy + dy_at[1]};
    AddProducts(stages[stage].image + first, channels, rows, pairs);
    stage = 1 - stage;
  }
  WriteSums(rows, pairs, p.partial);
}

#else

template <bool kChunks>
__global__ void StemConvGradTf32Kernel(const __grid_constant__ StemGradArgs<float>) {}

#endif

}  // namespace

void StemConvGradTf32(const float* x, const float* dy, float* dw, const StemShape& shape,
                      int multiprocessors, float4* partial, cudaStream_t stream) {
  const Units units = UnitsOf(shape, multiprocessors);
  if (units.count > 0) {
    const StemGradArgs<float> args{x, dy, partial, shape, units};
    DispatchChunks<float>(x, shape, [&](auto chunks) {
      StemConvGradTf32Kernel<decltype(chunks)::value><<<units.blocks, kThreads, 0, stream>>>(args);
    });
  }
  AddBlocks(partial, units, dw, stream);
}

}  // namespace xp::kernels
