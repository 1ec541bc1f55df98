// A block makes tiles of 128 x 128 of dy w, all of the same columns, with tensor cores. Eight
// warps, two by four, have 64 x 32 each. What is copied into shared memory runs ahead of the
// products over the ends of tiles: chunks of dy and w, 32 deep, in a ring, and what else flows into
// a tile, two of them in turn. There a warp adds its products to it, rounds and masks, in the order
// in which its lanes have them, and writes it out row by row. A block's sums stay in registers
// until its end; they are added up over the blocks afterwards (bias_grad.h), in a fixed order.
// Chunks of 16 bytes lie in shared memory where the swizzles say, so that eight rows of them lie in
// different banks.
#include "kernels/dgrad_join.h"

#include <algorithm>

#include "kernels/bias_grad.h"
#include "kernels/octet.cuh"
#include "kernels/tensor_ops.cuh"

namespace xp::kernels {
namespace {

using T = __nv_bfloat16;

constexpr int kRows = 128, kColumns = kDgradJoinColumns, kDepth = kDgradJoinDepth;
constexpr int kThreads = 256;
constexpr int kDyBytes = kRows * kDepth * 2, kStageBytes = kDyBytes + kColumns * kDepth * 2;
constexpr int kTileBytes = kRows * kColumns * 2;
constexpr size_t SharedBytes(int stages) {
  return static_cast<size_t>(stages) * kStageBytes + 2 * kTileBytes;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

// Byte offsets of a 16-byte chunk: of dy (4 chunks a row), and of w and the tile (16 a row).
__device__ inline unsigned SwizzleDy(int row, int chunk) {
  return static_cast<unsigned>(row * 64 + ((chunk ^ ((row >> 1) & 3)) * 16));
}
__device__ inline unsigned Swizzle(int row, int chunk) {
  return static_cast<unsigned>(row * 256 + ((chunk ^ (row & 7)) * 16));
}

// One chunk, `depth` onwards, of the products of the rows from `first_row`.
__device__ inline void LoadChunk(const DgradJoinArgs& p, int64_t first_row, int first_column,
                                 int depth, unsigned shared) {
  const auto* dy = static_cast<const T*>(p.dy);
  const auto* w = static_cast<const T*>(p.w);
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int u = 0; u < kRows * 4 / kThreads; ++u) {
    const int i = thread + u * kThreads, row = i / 4, chunk = i % 4;
    const bool inside = first_row + row < p.rows;
    CopyAsync(shared + SwizzleDy(row, chunk),
              dy + (inside ? (first_row + row) * p.depth + depth + chunk * 8 : 0), inside);
  }
#pragma unroll
  for (int u = 0; u < kDepth * 16 / kThreads; ++u) {
    const int i = thread + u * kThreads, row = i / 16, chunk = i % 16;
    CopyAsync(shared + kDyBytes + Swizzle(row, chunk),
              w + static_cast<int64_t>(depth + row) * p.columns + first_column + chunk * 8, true);
  }
}

// What else flows into a tile; its part of the mask at least into the L2 cache.
__device__ inline void LoadTile(const DgradJoinArgs& p, int64_t first_row, int first_column,
                                unsigned shared) {
  const bool even = p.more[0] == nullptr;
  const auto* more = static_cast<const T*>(even ? p.even.values : p.more[0]);
  const int row = static_cast<int>(threadIdx.x) / 16, chunk = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
  for (int r = 0; r < kRows; r += kThreads / 16) {
    int64_t from = first_row + row + r;
    bool inside = from < p.rows;
    if (even && inside) {
      from = p.even.Pixel(from);
      inside = from >= 0;
    }
    CopyAsync(shared + Swizzle(row + r, chunk),
              inside ? more + from * p.columns + first_column + chunk * 8 : more, inside);
  }
  const int64_t mask_row = first_row + static_cast<int>(threadIdx.x);
  if (p.mask != nullptr && threadIdx.x < kRows && mask_row < p.rows) {
    asm volatile(
        "prefetch.global.L2 [%0];\n" ::"l"(p.mask + (mask_row * p.columns + first_column) / 8));
  }
}

struct Lane {
  int row, column;  // of the warp's 64 x 32, in the tile
  int lane, g, t;
};

// A chunk's products for this warp.
__device__ inline void MultiplyChunk(unsigned shared, const Lane& at, float (&sum)[4][4][4]) {
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    unsigned b[2][4];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      LoadMatrices<true>(
          shared + kDyBytes + Swizzle(k * 16 + at.lane % 16, at.column / 8 + j * 2 + at.lane / 16),
          b[j][0], b[j][1], b[j][2], b[j][3]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      unsigned a[4];
      LoadMatrices<false>(shared + SwizzleDy(at.row + i * 16 + at.lane % 16, k * 2 + at.lane / 16),
                          a[0], a[1], a[2], a[3]);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        MultiplyAdd(sum[i][j], a[0], a[1], a[2], a[3], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1],
                    T{});
      }
    }
  }
}

// Adds a second one, seldom there, to this warp's products.
__device__ inline void AddSecond(const DgradJoinArgs& p, int64_t first_row, int first_column,
                                 const Lane& at, float (&sum)[4][4][4]) {
  const int64_t row = first_row + at.row + at.g;
  const T* from =
      static_cast<const T*>(p.more[1]) + row * p.columns + first_column + at.column + at.t * 2;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (row + i * 8 < p.rows) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 v = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(from + j * 8));
        sum[i / 2][j][i % 2 * 2] += v.x;
        sum[i / 2][j][i % 2 * 2 + 1] += v.y;
      }
    }
    from += static_cast<int64_t>(8) * p.columns;
  }
}

// Joins this warp's part of a tile: `tile` holds what else flows in and takes the result, which is
// then written out. column_sum: of this lane's columns 8 j + 2 t and the next.
__device__ inline void JoinTile(const DgradJoinArgs& p, int64_t first_row, int first_column,
                                const Lane& at, const float (&sum)[4][4][4], unsigned char* tile,
                                float (&column_sum)[4][2]) {
  const int64_t mask_at = ((first_row + at.row + at.g) * p.columns + first_column + at.column) / 8;
  unsigned bits[8];  // of this lane's rows, 32 columns
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const bool masked = p.mask != nullptr && first_row + at.row + at.g + i * 8 < p.rows;
    bits[i] =
        masked ? *reinterpret_cast<const unsigned*>(p.mask + mask_at + i * p.columns) : 0xffffffffu;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = at.row + i * 8 + at.g;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      auto* word =
          reinterpret_cast<__nv_bfloat162*>(tile + Swizzle(row, at.column / 8 + j) + at.t * 4);
      float2 v = __bfloat1622float2(*word);
      v.x += sum[i / 2][j][i % 2 * 2];
      v.y += sum[i / 2][j][i % 2 * 2 + 1];
      const unsigned two = bits[i] >> (j * 8 + at.t * 2);
      const __nv_bfloat162 g =
          __floats2bfloat162_rn((two & 1) != 0 ? v.x : 0.0f, (two & 2) != 0 ? v.y : 0.0f);
      *word = g;
      v = __bfloat1622float2(g);
      column_sum[j][0] += v.x;
      column_sum[j][1] += v.y;
    }
  }
  __syncwarp();
  T* to = static_cast<T*>(p.g) + first_row * p.columns + first_column + at.column + at.t * 8;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = at.row + i * 8 + at.g;
    if (first_row + row >= p.rows) continue;
    *reinterpret_cast<uint4*>(to + static_cast<int64_t>(row) * p.columns) =
        *reinterpret_cast<const uint4*>(tile + Swizzle(row, at.column / 8 + at.t));
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
template <int kStages>
__global__ void __launch_bounds__(kThreads, 2)
    DgradJoinKernel(const __grid_constant__ DgradJoinArgs p, int tiles, int parts, float* partial) {
  extern __shared__ __align__(128) unsigned char shared[];
  const unsigned ring = SharedAddress(shared);
  unsigned char* const maps = shared + kStages * kStageBytes;
  const int column_tiles = p.columns / kColumns;
  const int first_column = static_cast<int>(blockIdx.x) % column_tiles * kColumns;
  const int part = static_cast<int>(blockIdx.x) / column_tiles;
  const int chunks = p.depth / kDepth;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const Lane at{warp / 4 * 64, warp % 4 * 32, lane, lane / 4, lane % 4};

  // The next chunk to be copied.
  int next_tile = part, next_chunk = 0, next_stage = 0, next_map = 0;
  auto load = [&] {
    if (next_tile < tiles) {
      const int64_t row = static_cast<int64_t>(next_tile) * kRows;
      LoadChunk(p, row, first_column, next_chunk * kDepth, ring + next_stage * kStageBytes);
      if (next_chunk == 0) {
        LoadTile(p, row, first_column, SharedAddress(maps + next_map * kTileBytes));
        next_map ^= 1;
      }
      if (++next_chunk == chunks) {
        next_chunk = 0;
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
    const int64_t first_row = static_cast<int64_t>(tile) * kRows;
    float sum[4][4][4] = {};
    for (int chunk = 0; chunk < chunks; ++chunk) {
      WaitForCopies<kStages - 2>();
      __syncthreads();
      load();
      MultiplyChunk(ring + stage * kStageBytes, at, sum);
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    if (p.more[1] != nullptr) AddSecond(p, first_row, first_column, at, sum);
    JoinTile(p, first_row, first_column, at, sum, maps + map * kTileBytes, column_sum);
    map ^= 1;
  }
  __syncthreads();
  StoreSums(p, first_column, part, at, column_sum, reinterpret_cast<float*>(shared), partial);
}

#else

template <int kStages>
__global__ void DgradJoinKernel(const __grid_constant__ DgradJoinArgs, int, int, float*) {}

#endif

template <int kStages>
void Launch(const DgradJoinArgs& args, const DgradJoinPlan& plan, float* partial,
            cudaStream_t stream) {
  constexpr size_t kBytes = SharedBytes(kStages);
  cudaFuncSetAttribute(DgradJoinKernel<kStages>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(kBytes));
  const auto blocks = static_cast<unsigned>(plan.parts * (args.columns / kColumns));
  DgradJoinKernel<kStages>
      <<<blocks, kThreads, kBytes, stream>>>(args, plan.tiles, plan.parts, partial);
}

size_t Aligned(size_t n) { return (n + 255) / 256 * 256; }

size_t PartialBytes(const DgradJoinPlan& plan) {
  return Aligned(static_cast<size_t>(plan.parts) * plan.sums.channels * sizeof(float));
}

}  // namespace

DgradJoinPlan PlanDgradJoin(int64_t rows, int columns, int multiprocessors, size_t shared_memory) {
  DgradJoinPlan plan;
  plan.tiles = static_cast<int>((rows + kRows - 1) / kRows);
  plan.parts = std::clamp(2 * multiprocessors / (columns / kColumns), 1, std::max(plan.tiles, 1));
  plan.stages = shared_memory >= SharedBytes(3) ? 3 : 2;
  plan.sums = PlanBiasGrad(plan.parts, columns, ElementType::kF32, multiprocessors);
  return plan;
}

size_t DgradJoinScratch(const DgradJoinPlan& plan) {
  return PartialBytes(plan) + BiasGradScratch(plan.sums);
}

void DgradJoin(const DgradJoinArgs& args, const DgradJoinPlan& plan, void* scratch,
               unsigned* counters, cudaStream_t stream) {
  if (plan.tiles == 0) return;
  auto* partial = static_cast<float*>(scratch);
  if (plan.stages == 3) {
    Launch<3>(args, plan, partial, stream);
  } else {
    Launch<2>(args, plan, partial, stream);
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
