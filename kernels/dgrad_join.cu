// A block makes tiles of 128 columns of dy w, all of the same columns, with tensor cores: 128 rows
// of bf16, 64 of fp32 (products in tf32). Eight warps, two by four, have half of the rows and 32
// columns each. What is copied into shared memory runs ahead of the products over the ends of
// tiles: slices of dy and w in a ring, and what else flows into a tile, two of them in turn. There
// a warp adds its products to it, rounds and masks, in the order in which its lanes have them, and
// writes it out row by row. A block's sums stay in registers until its end; they are added up over
// the blocks afterwards (bias_grad.h), in a fixed order. Chunks of 16 bytes lie in shared memory
// where the swizzles say, so that those that a warp reads at once lie in different banks.
#include "kernels/dgrad_join.h"

#include <algorithm>

#include "kernels/bias_grad.h"
#include "kernels/octet.cuh"
#include "kernels/tensor_ops.cuh"

namespace xp::kernels {
namespace {

using BF16 = __nv_bfloat16;

constexpr int kColumns = kDgradJoinColumns, kThreads = 256;
constexpr int kDyChunks = 4;  // of 16 bytes, in a row of a slice of dy

template <typename T>
struct Tile {
  static constexpr int kChunk = 16 / static_cast<int>(sizeof(T));  // elements of 16 bytes
  static constexpr int kRows = 16 * kChunk;
  static constexpr int kDepth = kDyChunks * kChunk;     // of a slice
  static constexpr int kRowChunks = kColumns / kChunk;  // of the tile, and of w
  static constexpr int kWarpRows = kRows / 2, kMultiples = kWarpRows / 16;
  static constexpr int kDyBytes = kRows * kDyChunks * 16;
  static constexpr int kStageBytes = kDyBytes + kDepth * kRowChunks * 16;
  static constexpr int kBytes = kRows * kRowChunks * 16;
  static_assert(kDgradJoinDepth % kDepth == 0);
};
template <typename T>
constexpr size_t SharedBytes(int stages) {
  return static_cast<size_t>(stages) * Tile<T>::kStageBytes + 2 * Tile<T>::kBytes;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

// Byte offsets of a 16-byte chunk: of dy, and of w and the tile. Of the latter a warp reads eight
// rows of a chunk at once in bf16, and in fp32 eight or sixteen bytes of four rows.
__device__ inline unsigned SwizzleDy(int row, int chunk) {
  return static_cast<unsigned>(row * 64 + ((chunk ^ ((row >> 1) & 3)) * 16));
}
template <typename T>
__device__ inline unsigned Swizzle(int row, int chunk) {
  const int moved = sizeof(T) == 2 ? chunk ^ (row & 7) : chunk ^ (2 * (row & 3));
  return static_cast<unsigned>((row * Tile<T>::kRowChunks + moved) * 16);
}

// One slice, `depth` onwards, of the products of the rows from `first_row`.
template <typename T>
__device__ inline void LoadSlice(const DgradJoinArgs& p, int64_t first_row, int first_column,
                                 int depth, unsigned shared) {
  using S = Tile<T>;
  const auto* dy = static_cast<const T*>(p.dy);
  const auto* w = static_cast<const T*>(p.w);
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int u = 0; u < S::kRows * kDyChunks / kThreads; ++u) {
    const int i = thread + u * kThreads, row = i / kDyChunks, chunk = i % kDyChunks;
    const bool inside = first_row + row < p.rows;
    CopyAsync(shared + SwizzleDy(row, chunk),
              dy + (inside ? (first_row + row) * p.depth + depth + chunk * S::kChunk : 0), inside);
  }
#pragma unroll
  for (int u = 0; u < S::kDepth * S::kRowChunks / kThreads; ++u) {
    const int i = thread + u * kThreads, row = i / S::kRowChunks, chunk = i % S::kRowChunks;
    CopyAsync(shared + S::kDyBytes + Swizzle<T>(row, chunk),
              w + static_cast<int64_t>(depth + row) * p.columns + first_column + chunk * S::kChunk,
              true);
  }
}

// What else flows into a tile; its part of the mask at least into the L2 cache.
template <typename T>
__device__ inline void LoadTile(const DgradJoinArgs& p, int64_t first_row, int first_column,
                                unsigned shared) {
  using S = Tile<T>;
  const bool even = p.more[0] == nullptr;
  const auto* more = static_cast<const T*>(even ? p.even.values : p.more[0]);
  const int row = static_cast<int>(threadIdx.x) / S::kRowChunks;
  const int chunk = static_cast<int>(threadIdx.x) % S::kRowChunks;
#pragma unroll
  for (int r = 0; r < S::kRows; r += kThreads / S::kRowChunks) {
    int64_t from = first_row + row + r;
    bool inside = from < p.rows;
    if (even && inside) {
      from = p.even.Pixel(from);
      inside = from >= 0;
    }
    CopyAsync(shared + Swizzle<T>(row + r, chunk),
              inside ? more + from * p.columns + first_column + chunk * S::kChunk : more, inside);
  }
  const int64_t mask_row = first_row + static_cast<int>(threadIdx.x);
  if (p.mask != nullptr && threadIdx.x < S::kRows && mask_row < p.rows) {
    asm volatile(
        "prefetch.global.L2 [%0];\n" ::"l"(p.mask + (mask_row * p.columns + first_column) / 8));
  }
}

struct Lane {
  int row, column;  // where the warp's part of the tile begins
  int lane, g, t;
};

// This warp's products: 16 rows by 8 columns each.
template <typename T>
using Products = float[Tile<T>::kMultiples][4][4];

// A slice's products for this warp.
__device__ inline void MultiplySlice(const unsigned char* stage, const Lane& at,
                                     Products<BF16>& sum) {
  const unsigned shared = SharedAddress(stage), w = shared + Tile<BF16>::kDyBytes;
#pragma unroll
  for (int k = 0; k < Tile<BF16>::kDepth / 16; ++k) {
    unsigned b[2][4];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      LoadMatrices<true>(
          w + Swizzle<BF16>(k * 16 + at.lane % 16, at.column / 8 + j * 2 + at.lane / 16), b[j][0],
          b[j][1], b[j][2], b[j][3]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      unsigned a[4];
      LoadMatrices<false>(shared + SwizzleDy(at.row + i * 16 + at.lane % 16, k * 2 + at.lane / 16),
                          a[0], a[1], a[2], a[3]);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        MultiplyAdd(sum[i][j], a[0], a[1], a[2], a[3], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1],
                    BF16{});
      }
    }
  }
}
__device__ inline void MultiplySlice(const unsigned char* stage, const Lane& at,
                                     Products<float>& sum) {
  const unsigned shared = SharedAddress(stage);
  const unsigned char* w = stage + Tile<float>::kDyBytes;
#pragma unroll
  for (int k = 0; k < Tile<float>::kDepth / 8; ++k) {
    float b[4][2];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const unsigned chunk =
            Swizzle<float>(k * 8 + h * 4 + at.t, at.column / 4 + j * 2 + at.g / 4);
        b[j][h] = ToTf32(reinterpret_cast<const float*>(w + chunk)[at.g % 4]);
      }
    }
#pragma unroll
    for (int i = 0; i < Tile<float>::kMultiples; ++i) {
      unsigned bits[4];
      LoadMatrices<false>(shared + SwizzleDy(at.row + i * 16 + at.lane % 16, k * 2 + at.lane / 16),
                          bits[0], bits[1], bits[2], bits[3]);
      float a[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) a[e] = ToTf32(__uint_as_float(bits[e]));
#pragma unroll
      for (int j = 0; j < 4; ++j) MultiplyAdd(sum[i][j], a, b[j]);
    }
  }
}

__device__ inline float2 ReadTwo(const BF16* p) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(p));
}
__device__ inline float2 ReadTwo(const float* p) { return *reinterpret_cast<const float2*>(p); }
// Returns what they are after rounding.
__device__ inline float2 WriteTwo(float x, float y, BF16* p) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(x, y);
  *reinterpret_cast<__nv_bfloat162*>(p) = two;
  return __bfloat1622float2(two);
}
__device__ inline float2 WriteTwo(float x, float y, float* p) {
  return *reinterpret_cast<float2*>(p) = make_float2(x, y);
}

// Adds a second one, seldom there, to this warp's products.
template <typename T>
__device__ inline void AddSecond(const DgradJoinArgs& p, int64_t first_row, int first_column,
                                 const Lane& at, Products<T>& sum) {
  const int64_t row = first_row + at.row + at.g;
  const T* from =
      static_cast<const T*>(p.more[1]) + row * p.columns + first_column + at.column + at.t * 2;
#pragma unroll
  for (int i = 0; i < 2 * Tile<T>::kMultiples; ++i) {
    if (row + i * 8 < p.rows) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 v = ReadTwo(from + j * 8);
        sum[i / 2][j][i % 2 * 2] += v.x;
        sum[i / 2][j][i % 2 * 2 + 1] += v.y;
      }
    }
    from += static_cast<int64_t>(8) * p.columns;
  }
}

// Joins this warp's part of a tile: `tile` holds what else flows in and takes the result, which is
// then written out. column_sum: of this lane's columns 8 j + 2 t and the next.
template <typename T>
__device__ inline void JoinTile(const DgradJoinArgs& p, int64_t first_row, int first_column,
                                const Lane& at, const Products<T>& sum, unsigned char* tile,
                                float (&column_sum)[4][2]) {
  using S = Tile<T>;
  constexpr int kLaneRows = 2 * S::kMultiples;
  const int64_t mask_at = ((first_row + at.row + at.g) * p.columns + first_column + at.column) / 8;
  unsigned bits[kLaneRows];  // of this lane's rows, 32 columns
#pragma unroll
  for (int i = 0; i < kLaneRows; ++i) {
    const bool masked = p.mask != nullptr && first_row + at.row + at.g + i * 8 < p.rows;
    bits[i] =
        masked ? *reinterpret_cast<const unsigned*>(p.mask + mask_at + i * p.columns) : 0xffffffffu;
  }
#pragma unroll
  for (int i = 0; i < kLaneRows; ++i) {
    const int row = at.row + i * 8 + at.g;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = at.column + j * 8 + at.t * 2;
      T* two_elements =
          reinterpret_cast<T*>(tile + Swizzle<T>(row, column / S::kChunk)) + column % S::kChunk;
      float2 v = ReadTwo(two_elements);
      v.x += sum[i / 2][j][i % 2 * 2];
      v.y += sum[i / 2][j][i % 2 * 2 + 1];
      const unsigned two = bits[i] >> (j * 8 + at.t * 2);
      v = WriteTwo((two & 1) != 0 ? v.x : 0.0f, (two & 2) != 0 ? v.y : 0.0f, two_elements);
      column_sum[j][0] += v.x;
      column_sum[j][1] += v.y;
    }
  }
  __syncwarp();
  constexpr int kWarpChunks = 32 / S::kChunk, kRowsAtOnce = 32 / kWarpChunks;
  const int chunk = at.column / S::kChunk + at.lane % kWarpChunks;
  T* to = static_cast<T*>(p.g) + first_row * p.columns + first_column + chunk * S::kChunk;
#pragma unroll
  for (int i = 0; i < S::kWarpRows / kRowsAtOnce; ++i) {
    const int row = at.row + i * kRowsAtOnce + at.lane / kWarpChunks;
    if (first_row + row >= p.rows) continue;
    *reinterpret_cast<uint4*>(to + static_cast<int64_t>(row) * p.columns) =
        *reinterpret_cast<const uint4*>(tile + Swizzle<T>(row, chunk));
  }
}

// The block's sums, of its warps' two halves of the rows.
__device__ inline void StoreSums(const DgradJoinArgs& p, int first_column, int part, const Lane& at,
                                 float (&column_sum)[4][2], float* shared, float* partial) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      float& v = column_sum[j][c];
#pragma unroll
      for (int step = 4; step < 32; step *= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
      if (at.g == 0) shared[(at.row != 0) * kColumns + at.column + j * 8 + at.t * 2 + c] = v;
    }
  }
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= kColumns) return;
  partial[static_cast<int64_t>(part) * p.columns + first_column + column] =
      shared[column] + shared[kColumns + column];
}

// Block b has the columns of tile b % n of n and every parts-th tile of rows.
template <typename T, int kStages>
__global__ void __launch_bounds__(kThreads, 2)
    DgradJoinKernel(const __grid_constant__ DgradJoinArgs p, int tiles, int parts, float* partial) {
  using S = Tile<T>;
  unsigned char* const ring = DynamicShared();
  unsigned char* const maps = ring + kStages * S::kStageBytes;
  const int column_tiles = p.columns / kColumns;
  const int first_column = static_cast<int>(blockIdx.x) % column_tiles * kColumns;
  const int part = static_cast<int>(blockIdx.x) / column_tiles;
  const int slices = p.depth / S::kDepth;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const Lane at{warp / 4 * S::kWarpRows, warp % 4 * 32, lane, lane / 4, lane % 4};

  // The next slice to be copied.
  int next_tile = part, next_slice = 0, next_stage = 0, next_map = 0;
  auto load = [&] {
    if (next_tile < tiles) {
      const int64_t row = static_cast<int64_t>(next_tile) * S::kRows;
      LoadSlice<T>(p, row, first_column, next_slice * S::kDepth,
                   SharedAddress(ring + next_stage * S::kStageBytes));
      if (next_slice == 0) {
        LoadTile<T>(p, row, first_column, SharedAddress(maps + next_map * S::kBytes));
        next_map ^= 1;
      }
      if (++next_slice == slices) {
        next_slice = 0;
        next_tile += parts;
      }
    }
    next_stage = next_stage + 1 == kStages ? 0 : next_stage + 1;
    CommitCopies();
  };
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) load();

  float column_sum[4][2] = {};
  int stage = 0, map = 0;
  for (int tile = part; tile < tiles; tile += parts) {
    const int64_t first_row = static_cast<int64_t>(tile) * S::kRows;
    Products<T> sum = {};
    for (int slice = 0; slice < slices; ++slice) {
      WaitForCopies<kStages - 2>();
      __syncthreads();
      load();
      MultiplySlice(ring + stage * S::kStageBytes, at, sum);
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    if (p.more[1] != nullptr) AddSecond<T>(p, first_row, first_column, at, sum);
    JoinTile<T>(p, first_row, first_column, at, sum, maps + map * S::kBytes, column_sum);
    map ^= 1;
  }
  __syncthreads();
  StoreSums(p, first_column, part, at, column_sum, reinterpret_cast<float*>(ring), partial);
}

#else

template <typename T, int kStages>
__global__ void DgradJoinKernel(const __grid_constant__ DgradJoinArgs, int, int, float*) {}

#endif

template <typename T, int kStages>
void Launch(const DgradJoinArgs& args, const DgradJoinPlan& plan, float* partial,
            cudaStream_t stream) {
  constexpr size_t kBytes = SharedBytes<T>(kStages);
  cudaFuncSetAttribute(DgradJoinKernel<T, kStages>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(kBytes));
  const auto blocks = static_cast<unsigned>(plan.parts * (args.columns / kColumns));
  DgradJoinKernel<T, kStages>
      <<<blocks, kThreads, kBytes, stream>>>(args, plan.tiles, plan.parts, partial);
}

size_t Aligned(size_t n) { return (n + 255) / 256 * 256; }

size_t PartialBytes(const DgradJoinPlan& plan) {
  return Aligned(static_cast<size_t>(plan.parts) * plan.sums.channels * sizeof(float));
}

}  // namespace

DgradJoinPlan PlanDgradJoin(int64_t rows, int columns, ElementType type, int multiprocessors,
                            size_t shared_memory) {
  DgradJoinPlan plan;
  const int tile = type == ElementType::kF32 ? Tile<float>::kRows : Tile<BF16>::kRows;
  plan.tiles = static_cast<int>((rows + tile - 1) / tile);
  plan.parts = std::clamp(2 * multiprocessors / (columns / kColumns), 1, std::max(plan.tiles, 1));
  const size_t wanted = type == ElementType::kF32 ? SharedBytes<float>(4) : SharedBytes<BF16>(3);
  plan.deep = shared_memory >= wanted;
  plan.sums = PlanBiasGrad(plan.parts, columns, ElementType::kF32, multiprocessors);
  return plan;
}

size_t DgradJoinScratch(const DgradJoinPlan& plan) {
  return PartialBytes(plan) + BiasGradScratch(plan.sums);
}

void DgradJoin(const DgradJoinArgs& args, const DgradJoinPlan& plan, void* scratch,
               unsigned* counters, ElementType type, cudaStream_t stream) {
  if (plan.tiles == 0) return;
  auto* partial = static_cast<float*>(scratch);
  if (type == ElementType::kF32) {
    (plan.deep ? Launch<float, 4> : Launch<float, 2>)(args, plan, partial, stream);
  } else {
    (plan.deep ? Launch<BF16, 3> : Launch<BF16, 2>)(args, plan, partial, stream);
  }
  float* first = args.dbias[0] != nullptr ? args.dbias[0] : args.dbias[1];
  if (first == nullptr) return;
  BiasGrad(partial, first, plan.sums, static_cast<char*>(scratch) + PartialBytes(plan), counters,
           ElementType::kF32, stream);
  if (args.dbias[1] != nullptr && args.dbias[1] != first) {
    cudaMemcpyAsync(args.dbias[1], first, static_cast<size_t>(args.columns) * sizeof(float),
                    cudaMemcpyDeviceToDevice, stream);
  }
}

}  // namespace xp::kernels
