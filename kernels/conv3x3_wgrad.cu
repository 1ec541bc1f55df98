// dw[tap][c, k] = sum over pixels of x[pixel + tap, c] dy[pixel, k]
//
// A block has 64 channels of x and 64 of dy, for all nine taps, and goes over the map in units of
// 14 rows by 8 columns. Warp w has channels 16 (w % 4) to + 15 of x and 32 (w / 4) to + 31 of dy.
// Pixel i of a product's eight stands for row 7 (i / 4) + o and column 2 (i % 4) + j: so what is
// read of x for row + i and column + right serves every o and j under tap i - o, right - j, and 36
// reads of x serve the unit's 126 products of fourteen pixels and nine taps.
#include "kernels/conv3x3_wgrad.h"

#include "kernels/elements.cuh"
#include "kernels/part_sums.cuh"
#include "kernels/tensor_ops.cuh"

namespace xp::kernels {
namespace {

constexpr int kThreads = 256, kChannels = 64, kTaps = 9;
constexpr int kTiles = 4;  // of eight channels of dy that a warp has
constexpr int kHalfRows = 7, kRows = 2 * kHalfRows, kColumns = 8;  // of a unit
constexpr int kTileQuads = kTaps * kChannels * kChannels / 4;      // that a block leaves
constexpr int kStages = 2;
constexpr int kInputColumns = kColumns + 2, kInputPixels = (kRows + 2) * kInputColumns;
// From one pixel to the next: those two further lie in the next eight banks.
constexpr int kPixel = kChannels + 4;

struct Stage {
  float x[kInputPixels * kPixel];
  float dy[kRows * kColumns * kPixel];
};

struct Units {
  int rows, columns, count;
};

Units UnitsOf(const Conv3x3Shape& s) {
  const int rows = (s.h + kRows - 1) / kRows, columns = (s.w + kColumns - 1) / kColumns;
  return {rows, columns, s.n * rows * columns};
}

struct WgradArgs {
  const float *x, *dy;
  float4* partial;  // [part][tile of c][tile of k][kTileQuads]
  Conv3x3Shape shape;
  Units units;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

// Calls body(pixel, quad of channels) for this thread's of `kPixels`.
template <int kPixels, typename Body>
__device__ inline void EachQuad(Body&& body) {
  constexpr int kQuads = kChannels / 4, kAtOnce = kThreads / kQuads;
  const int first = static_cast<int>(threadIdx.x) / kQuads;
#pragma unroll 2  // more need registers that the sums have
  for (int pixel = 0; pixel < kPixels; pixel += kAtOnce) {
    if (pixel + kAtOnce > kPixels && pixel + first >= kPixels) break;
    body(pixel + first, static_cast<int>(threadIdx.x) % kQuads);
  }
}

// Copies `kPixels` pixels in rows of `kWidth` from row, column on; zeros outside the map. `from`:
// the first of the block's channels.
template <int kPixels, int kWidth>
__device__ inline void LoadPixels(const float* from, const Conv3x3Shape& s, int channels, int image,
                                  int row, int column, float* to) {
  EachQuad<kPixels>([&](int pixel, int quad) {
    const int y = row + pixel / kWidth, x = column + pixel % kWidth;
    const bool inside = y >= 0 && y < s.h && x >= 0 && x < s.w;
    const int64_t at = (static_cast<int64_t>(image) * s.h + y) * s.w + x;
    const float* source = inside ? from + at * channels + quad * 4 : from;
    CopyAsync(SharedAddress(to + pixel * kPixel + quad * 4), source, inside);
  });
}

__device__ inline void LoadUnit(const WgradArgs& p, int unit, Stage& to) {
  const int column = unit % p.units.columns * kColumns, rest = unit / p.units.columns;
  const int row = rest % p.units.rows * kRows, image = rest / p.units.rows;
  LoadPixels<kInputPixels, kInputColumns>(p.x + blockIdx.y * kChannels, p.shape, p.shape.c, image,
                                          row - 1, column - 1, to.x);
  LoadPixels<kRows * kColumns, kColumns>(p.dy + blockIdx.z * kChannels, p.shape, p.shape.k, image,
                                         row, column, to.dy);
}

// Row o of dy, and the one seven below, as the second factor for column j and channels 8 n on.
using DyRow = float[2][kTiles][2];

__device__ inline void ReadDyRow(const float* dy, int o, DyRow& to) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float* at = dy + (o * kColumns + j) * kPixel + n * 8;
      to[j][n][0] = ToTf32(at[0]);
      to[j][n][1] = ToTf32(at[kHalfRows * kColumns * kPixel]);
    }
  }
}

// x and dy: at this lane's first channel and column 2 (lane % 4).
__device__ inline void AddProducts(const float* x, const float* dy,
                                   float (&sum)[kTaps][kTiles][4]) {
  DyRow rows[3];  // the last three read
#pragma unroll
  for (int i = 0; i < kHalfRows + 2; ++i) {
    if (i < kHalfRows) ReadDyRow(dy, i, rows[i % 3]);
#pragma unroll
    for (int right = 0; right < 4; ++right) {
      constexpr int kHalf = kHalfRows * kInputColumns * kPixel;
      const float* at = x + (i * kInputColumns + right) * kPixel;
      const float a[4] = {ToTf32(at[0]), ToTf32(at[8]), ToTf32(at[kHalf]), ToTf32(at[kHalf + 8])};
#pragma unroll
      for (int r = 0; r < 3; ++r) {
        const int o = i - r;
        if (o < 0 || o >= kHalfRows) continue;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int s = right - j;
          if (s < 0 || s > 2) continue;
#pragma unroll
          for (int n = 0; n < kTiles; ++n) MultiplyAdd(sum[r * 3 + s][n], a, rows[o % 3][j][n]);
        }
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    Conv3x3WgradKernel(const __grid_constant__ WgradArgs p) {
  auto* stages = reinterpret_cast<Stage*>(DynamicShared());
  const int parts = static_cast<int>(gridDim.x);
  int next = static_cast<int>(blockIdx.x);
  auto load = [&](int stage) {
    if (next < p.units.count) LoadUnit(p, next, stages[stage]);
    CommitCopies();
    next += parts;
  };
  load(0);

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = lane % 4 * 2 * kPixel + lane / 4;
  const int x_at = first + warp % 4 * 16, dy_at = first + warp / 4 * (kTiles * 8);
  float sum[kTaps][kTiles][4] = {};
  int stage = 0;
  for (int unit = static_cast<int>(blockIdx.x); unit < p.units.count; unit += parts) {
    WaitForCopies<0>();
    __syncthreads();
    load(1 - stage);
    AddProducts(stages[stage].x + x_at, stages[stage].dy + dy_at, sum);
    stage = 1 - stage;
  }
  const int64_t tile = (static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y) * gridDim.z;
  float4* to = p.partial + (tile + blockIdx.z) * kTileQuads + threadIdx.x;
#pragma unroll
  for (int v = 0; v < kTaps * kTiles; ++v) {
    const float(&c)[4] = sum[v / kTiles][v % kTiles];
    to[v * kThreads] = make_float4(c[0], c[1], c[2], c[3]);
  }
}

#else

__global__ void Conv3x3WgradKernel(const __grid_constant__ WgradArgs) {}

#endif

struct WriteWeight {
  float* dw;
  int c, tiles;  // tiles of k

  __device__ void operator()(int quad, int element, float sum) const {
    const int thread = quad % kThreads, v = quad / kThreads % (kTaps * kTiles);
    const int tile = quad / kTileQuads, warp = thread / 32, lane = thread % 32;
    const int channel = tile / tiles * kChannels + warp % 4 * 16 + lane / 4 + element / 2 * 8;
    const int k = tile % tiles * kChannels + warp / 4 * (kTiles * 8) + v % kTiles * 8 +
                  lane % 4 * 2 + element % 2;
    dw[(static_cast<int64_t>(k) * kTaps + v / kTiles) * c + channel] = sum;
  }
};

constexpr int kSharedBytes = kStages * static_cast<int>(sizeof(Stage));

bool Runs() {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, Conv3x3WgradKernel) == cudaSuccess &&
      attributes.ptxVersion >= 80 &&
      cudaFuncSetAttribute(Conv3x3WgradKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kSharedBytes) == cudaSuccess) {
    return true;
  }
  cudaGetLastError();
  return false;
}

int Tiles(const Conv3x3Shape& s) { return s.c / kChannels * (s.k / kChannels); }

}  // namespace

Conv3x3WgradPlan PlanConv3x3Wgrad(const Conv3x3Shape& shape, int multiprocessors) {
  Conv3x3WgradPlan plan{.shape = shape};
  if (!Runs()) return plan;
  const int units = UnitsOf(shape).count, tiles = Tiles(shape);
  const int most = multiprocessors > tiles ? multiprocessors / tiles : 1;
  plan.parts = units < most ? units : most;
  return plan;
}

size_t Conv3x3WgradScratch(const Conv3x3WgradPlan& plan) {
  return sizeof(float4) * kTileQuads * static_cast<size_t>(Tiles(plan.shape)) *
         static_cast<size_t>(plan.parts);
}

void Conv3x3Wgrad(const Conv3x3WgradPlan& plan, const float* x, const float* dy, float* dw,
                  void* scratch, cudaStream_t stream) {
  const Conv3x3Shape& s = plan.shape;
  auto* partial = static_cast<float4*>(scratch);
  const int c_tiles = s.c / kChannels, k_tiles = s.k / kChannels;
  const dim3 grid(static_cast<unsigned>(plan.parts), static_cast<unsigned>(c_tiles),
                  static_cast<unsigned>(k_tiles));
  Conv3x3WgradKernel<<<grid, kThreads, kSharedBytes, stream>>>(
      WgradArgs{x, dy, partial, s, UnitsOf(s)});
  AddParts(partial, plan.parts, Tiles(s) * kTileQuads, WriteWeight{dw, s.c, k_tiles}, stream);
}

}  // namespace xp::kernels
