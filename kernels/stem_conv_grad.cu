// dw[7 x 24, channel] = sum over pixels of windows^T [7 x 24, pixel] dy[pixel, channel]
//
// Warp w has channels 16 w to + 15 and all 7 x 24 elements of the windows, in tiles of 16: the
// first 16 of each weight row r (rows g and g + 8 of a tile are elements 2 g and 2 g + 1), and the
// last 8 of rows 2 j and 2 j + 1 together (of row 7, which doesn't exist, too). Pixels are summed
// over in the order 0, 4, 1, 5, 2, 6, 3, 7, 8, 12, ..: a lane's words are then those of pixels t, t
// + 4, t + 8 and t + 12, and a warp's lie side by side, in different banks; those of the next image
// row follow half the banks further (kRowWords).
#include "kernels/stem_conv_units.cuh"

namespace xp::kernels {
namespace {

// A block of the gradient leaves a sum for each of these tiles of 16 x 8, lane by lane.
constexpr int kRowTiles = 7, kPairTiles = 4, kTiles = 2 * (kRowTiles + kPairTiles);
constexpr int kPartQuads = kWarps * kTiles * 32;  // quads of fp32 that a block leaves

template <typename T>
struct StemGradArgs {
  const T *x, *dy;
  float4* partial;  // [blocks, kPartQuads]
  StemShape shape;
  Units units;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

constexpr int kGradStages = 3;
constexpr int kUnitPixels = kUnitRows * kUnitColumns;

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
  float4* to =
      p.partial + static_cast<int64_t>(blockIdx.x) * kPartQuads + warp * kTiles * 32 + lane;
#pragma unroll
  for (int v = 0; v < kTiles; ++v) {
    const float(&c)[4] = v < 2 * kRowTiles ? rows[v / 2][v % 2] : pairs[v / 2 - kRowTiles][v % 2];
    to[v * 32] = make_float4(c[0], c[1], c[2], c[3]);
  }
}

#else

template <typename T, bool kChunks>
__global__ void StemConvGradKernel(const __grid_constant__ StemGradArgs<T>) {}

#endif

// Adds the blocks' sums up, in their order: 16 threads a quad take every 16th, then one adds those.
constexpr int kSumThreads = 256, kSumLanes = 16, kSumGroups = kSumThreads / kSumLanes;
static_assert(kPartQuads % kSumLanes == 0);

template <typename T>
__global__ void __launch_bounds__(kSumThreads)
    StemConvGradSumKernel(const float4* partial, int parts, T* dw) {
  __shared__ float4 sums[kSumGroups][kSumLanes];
  const int lane = static_cast<int>(threadIdx.x) % kSumLanes;
  const int group = static_cast<int>(threadIdx.x) / kSumLanes;
  const int quad = static_cast<int>(blockIdx.x) * kSumLanes + lane;
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
  for (int part = group; part < parts; part += kSumGroups) {
    const float4 v = partial[static_cast<int64_t>(part) * kPartQuads + quad];
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  sums[group][lane] = sum;
  __syncthreads();
  if (threadIdx.x >= kSumLanes * 4) return;
  const int at = static_cast<int>(threadIdx.x) / 4, c = static_cast<int>(threadIdx.x) % 4;
  float all = 0;
#pragma unroll
  for (int k = 0; k < kSumGroups; ++k) all += reinterpret_cast<const float*>(&sums[k][at])[c];
  // Which weight this is.
  const int index = static_cast<int>(blockIdx.x) * kSumLanes + at;
  const int g = index % 32 / 4, t = index % 4, v = index / 32 % kTiles;
  const int channel = index / (32 * kTiles) * 16 + v % 2 * 8 + t * 2 + c % 2;
  const bool pair = v >= 2 * kRowTiles;
  const int r = pair ? (v / 2 - kRowTiles) * 2 + g / 4 : v / 2;
  const int element = (pair ? 16 + g % 4 * 2 : g * 2) + c / 2;
  if (r >= 7 || element < 1 || element > kWeightRow) return;
  dw[channel * kWeights + r * kWeightRow + element - 1] = FromFloat<T>(all);
}

}  // namespace

size_t StemConvGradScratch(const StemShape& shape, int multiprocessors) {
  return static_cast<size_t>(UnitsOf(shape, multiprocessors).blocks) * kPartQuads * sizeof(float4);
}

void StemConvGrad(const void* x, const void* dy, void* dw, const StemShape& shape,
                  int multiprocessors, void* scratch, ElementType type, cudaStream_t stream) {
  const Units units = UnitsOf(shape, multiprocessors);
  auto* partial = static_cast<float4*>(scratch);
  DispatchImage(x, shape, type, [&](auto zero, auto chunks) {
    using T = decltype(zero);
    if (units.count > 0) {
      const StemGradArgs<T> args{static_cast<const T*>(x), static_cast<const T*>(dy), partial,
                                 shape, units};
      StemConvGradKernel<T, decltype(chunks)::value><<<units.blocks, kThreads, 0, stream>>>(args);
    }
    StemConvGradSumKernel<T><<<kPartQuads / kSumLanes, kSumThreads, 0, stream>>>(
        partial, static_cast<int>(units.blocks), static_cast<T*>(dw));
  });
}

}  // namespace xp::kernels
