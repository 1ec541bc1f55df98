// dw[7 x 24, channel] = sum over pixels of windows^T [7 x 24, pixel] dy[pixel, channel]
//
// Rows g and g + 8 of a tile (stem_conv_grad_sums.cuh) are elements 2 g and 2 g + 1. Pixels are
// summed over in the order 0, 4, 1, 5, 2, 6, 3, 7, 8, 12, ..: a lane's words are then those of
// pixels t, t + 4, t + 8 and t + 12, and a warp's lie side by side, in different banks; those of
// the next image row follow half the banks further (kRowWords).
#include "kernels/stem_conv_grad_sums.cuh"
#include "kernels/stem_conv_kernels.h"

namespace xp::kernels {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

constexpr int kGradStages = 3;

template <typename T>
struct GradStage {
  T image[(kImageRows + 1) * kRowWords * 2];  // row 13 belongs to weight row 7: never written
  T dy[kUnitPixels * kStemChannels];
};

// Where the chunk of eight channels of a unit's pixel lies: eight pixels' in different banks.
__device__ inline int Swizzled(int pixel, int chunk) {
  return (pixel * 8 + (chunk ^ (pixel & 7))) * 8;
}

template <typename T>
__device__ inline void LoadGradients(const T* dy, const StemShape& s, const Place& unit, T* to) {
  static_assert(kThreads == kUnitColumns * 8);
  const int pixel = static_cast<int>(threadIdx.x) / 8, chunk = static_cast<int>(threadIdx.x) % 8;
  const int row = unit.row * kUnitRows, column = unit.column * kUnitColumns + pixel;
  const T* from = dy +
                  ((static_cast<int64_t>(unit.image) * s.p + row) * s.q + column) * kStemChannels +
                  chunk * 8;
  to += Swizzled(pixel, chunk);
#pragma unroll
  for (int o = 0; o < kUnitRows; ++o) {
    const bool inside = row + o < s.p && column < s.q;
    CopyAsync(SharedAddress(to + o * kUnitColumns * kStemChannels),
              inside ? from + o * s.q * kStemChannels : dy, inside);
  }
}

// 16 window elements (two a word) of 16 pixels.
__device__ inline void ReadWindows(const unsigned* words, unsigned (&a)[4]) {
  constexpr int kFour = 4 * kColumnWords;
  const unsigned v[4] = {words[0], words[kFour], words[2 * kFour], words[3 * kFour]};
  a[0] = __byte_perm(v[0], v[1], 0x5410);
  a[1] = __byte_perm(v[0], v[1], 0x7632);
  a[2] = __byte_perm(v[2], v[3], 0x5410);
  a[3] = __byte_perm(v[2], v[3], 0x7632);
}

// Adds a unit's products. Image row i lies under weight row i - 2 o of output row o.
template <typename T>
__device__ inline void AddProducts(const unsigned* image, const unsigned* image_pairs,
                                   unsigned dy_address, float (&rows)[kRowTiles][2][4],
                                   float (&pairs)[kPairTiles][2][4]) {
  unsigned b[kUnitRows][4];
#pragma unroll
  for (int o = 0; o < kUnitRows; ++o) {
    LoadMatrices<true>(dy_address + o * kUnitColumns * kStemChannels * 2, b[o][0], b[o][1], b[o][2],
                       b[o][3]);
  }
#pragma unroll
  for (int i = 0; i < kImageRows; ++i) {
    unsigned a[4];
    ReadWindows(image + i * kRowWords, a);
#pragma unroll
    for (int o = 0; o < kUnitRows; ++o) {
      const int r = i - 2 * o;
      if (r < 0 || r >= kRowTiles) continue;
      MultiplyAdd(rows[r][0], a[0], a[1], a[2], a[3], b[o][0], b[o][1], T{});
      MultiplyAdd(rows[r][1], a[0], a[1], a[2], a[3], b[o][2], b[o][3], T{});
    }
    if (i % 2 != 0) continue;
    ReadWindows(image_pairs + i * kRowWords, a);
#pragma unroll
    for (int o = 0; o < kUnitRows; ++o) {
      const int j = i / 2 - o;
      if (j < 0 || j >= kPairTiles) continue;
      MultiplyAdd(pairs[j][0], a[0], a[1], a[2], a[3], b[o][0], b[o][1], T{});
      MultiplyAdd(pairs[j][1], a[0], a[1], a[2], a[3], b[o][2], b[o][3], T{});
    }
  }
}

template <typename T, bool kChunks>
__global__ void __launch_bounds__(kThreads, kBlocksAMultiprocessor)
    StemConvGradKernel(const __grid_constant__ StemGradArgs<T> p) {
  __shared__ alignas(128) GradStage<T> stages[kGradStages];
  Place next = FirstPlace(p.units);
  Place unit = next;
  auto load = [&](int stage) {
    if (next.image < p.shape.n) {
      LoadImage<T, kChunks>(p.x, p.shape, next, stages[stage].image);
      LoadGradients(p.dy, p.shape, next, stages[stage].dy);
    }
    CommitCopies();
    Advance(next, p.units);
  };
#pragma unroll
  for (int s = 0; s < kGradStages - 1; ++s) load(s);

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4;
  const int first_word = kFirstWord + t * kColumnWords;
  const int word = first_word + g, pair_word = first_word + 8 + g % 4 + g / 4 * kRowWords;
  // This lane's row of the four matrices that ldmatrix reads: pixels 0 to 7 and 8 to 15 of eight
  // channels, then of the next eight.
  const int matrix = lane / 8, row = lane % 8;
  const int dy_at = Swizzled(matrix % 2 * 8 + row / 2 + row % 2 * 4, warp * 2 + matrix / 2);
  float rows[kRowTiles][2][4] = {}, pairs[kPairTiles][2][4] = {};
  int stage = 0;
  for (; unit.image < p.shape.n; Advance(unit, p.units)) {
    WaitForCopies<kGradStages - 2>();
    __syncthreads();
    load((stage + kGradStages - 1) % kGradStages);
    const auto* image = reinterpret_cast<const unsigned*>(stages[stage].image);
    AddProducts<T>(image + word, image + pair_word, SharedAddress(stages[stage].dy + dy_at), rows,
                   pairs);
    stage = (stage + 1) % kGradStages;
  }
  WriteSums(rows, pairs, p.partial);
}

#else

template <typename T, bool kChunks>
__global__ void StemConvGradKernel(const __grid_constant__ StemGradArgs<T>) {}

#endif

}  // namespace

size_t StemConvGradScratch(const StemShape& shape, int multiprocessors) {
  return static_cast<size_t>(UnitsOf(shape, multiprocessors).blocks) * kPartQuads * sizeof(float4);
}

void StemConvGrad(const void* x, const void* dy, void* dw, const StemShape& shape,
                  int multiprocessors, void* scratch, ElementType type, cudaStream_t stream) {
  const Units units = UnitsOf(shape, multiprocessors);
  auto* partial = static_cast<float4*>(scratch);
  if (type == ElementType::kF32) {
    StemConvGradTf32(static_cast<const float*>(x), static_cast<const float*>(dy),
                     static_cast<float*>(dw), shape, multiprocessors, partial, stream);
    return;
  }
  DispatchImage(x, shape, type, [&](auto zero, auto chunks) {
    using T = decltype(zero);
    if (units.count > 0) {
      const StemGradArgs<T> args{static_cast<const T*>(x), static_cast<const T*>(dy), partial,
                                 shape, units};
      StemConvGradKernel<T, decltype(chunks)::value><<<units.blocks, kThreads, 0, stream>>>(args);
    }
    AddBlocks(partial, units, static_cast<T*>(dw), stream);
  });
}

}  // namespace xp::kernels
