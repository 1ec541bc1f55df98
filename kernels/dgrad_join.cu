// A block makes a tile of 128 x 128 of dy w with tensor cores (mma.sync m16n8k16, fp32 sums), two
// stages of 32 deep in shared memory by cp.async. Eight warps, two by four, have 64 x 32 each. The
// result goes through shared memory, half a tile at a time, so that everything else is read and
// written in octets, row by row. The sums of a tile's columns are added up over the tiles
// afterwards (bias_grad.h), in a fixed order. Chunks of 16 bytes lie in shared memory where
// `Swizzle` says, so that the eight rows of a matrix that ldmatrix reads lie in different banks.
#include "kernels/dgrad_join.h"

#include "kernels/bias_grad.h"
#include "kernels/octet.cuh"

namespace xp::kernels {
namespace {

constexpr int kRows = 128, kColumns = kDgradJoinColumns, kDepth = kDgradJoinDepth;
constexpr int kThreads = 256;
constexpr int kStageBytes = (kRows + kColumns) * kDepth * 2;
constexpr int kHalfRows = kRows / 2, kHalfStride = kColumns + 4;  // floats
[[maybe_unused]] constexpr int kSharedBytes =
    kHalfRows * kHalfStride * 4 > 2 * kStageBytes ? kHalfRows* kHalfStride * 4 : 2 * kStageBytes;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

__device__ inline unsigned SharedAddress(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// 16 bytes; zeros where `inside` is false.
__device__ inline void CopyAsync(unsigned to, const void* from, bool inside) {
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;\n"); }
template <int kPending>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending));
}

template <bool kTransposed>
__device__ inline void LoadMatrices(unsigned address, unsigned (&r)[4]) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  }
}

__device__ inline void MultiplyAdd(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                   unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Byte offsets of a 16-byte chunk: of dy's tile (4 chunks a row), and of w's (16 a row).
__device__ inline unsigned SwizzleA(int row, int chunk) {
  return static_cast<unsigned>(row * 64 + ((chunk ^ ((row >> 1) & 3)) * 16));
}
__device__ inline unsigned SwizzleB(int row, int chunk) {
  return static_cast<unsigned>(row * 256 + ((chunk ^ (row & 7)) * 16));
}

struct Tile {
  int64_t first_row;
  int first_column;
};

__device__ inline void LoadStage(const DgradJoinArgs& p, const Tile& tile, int depth,
                                 unsigned shared) {
  const auto* dy = static_cast<const __nv_bfloat16*>(p.dy);
  const auto* w = static_cast<const __nv_bfloat16*>(p.w);
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int u = 0; u < kRows * 4 / kThreads; ++u) {
    const int i = thread + u * kThreads, row = i / 4, chunk = i % 4;
    const int64_t at = tile.first_row + row;
    const bool inside = at < p.rows;
    CopyAsync(shared + SwizzleA(row, chunk), dy + (inside ? at : 0) * p.depth + depth + chunk * 8,
              inside);
  }
  const unsigned second = shared + kRows * kDepth * 2;
#pragma unroll
  for (int u = 0; u < kDepth * 16 / kThreads; ++u) {
    const int i = thread + u * kThreads, row = i / 16, chunk = i % 16;
    CopyAsync(second + SwizzleB(row, chunk),
              w + static_cast<int64_t>(depth + row) * p.columns + tile.first_column + chunk * 8,
              true);
  }
  CommitCopies();
}

// One stage's products for this warp's 64 x 32.
__device__ inline void MultiplyStage(unsigned shared, int warp_row, int warp_column, int lane,
                                     float (&sum)[4][4][4]) {
  const unsigned second = shared + kRows * kDepth * 2;
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    unsigned a[4][4], b[2][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      LoadMatrices<false>(shared + SwizzleA(warp_row * 64 + i * 16 + lane % 16, k * 2 + lane / 16),
                          a[i]);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      LoadMatrices<true>(second + SwizzleB(k * 16 + lane % 16, warp_column * 4 + j * 2 + lane / 16),
                         b[j]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        MultiplyAdd(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
  }
}

// Adds what else flows in to half a tile of products, rounds, masks, writes; column_sum: of this
// thread's eight columns.
__device__ inline void JoinHalf(const DgradJoinArgs& p, const Tile& tile, int half,
                                const float* products, float (&column_sum)[8]) {
  const int column = static_cast<int>(threadIdx.x) % 16 * 8;
  const auto* more0 = static_cast<const __nv_bfloat16*>(p.more[0]);
  const auto* more1 = static_cast<const __nv_bfloat16*>(p.more[1]);
  constexpr int kOctets = kHalfRows / (kThreads / 16);
  Octet<__nv_bfloat16> first[kOctets];
  unsigned bits[kOctets];
#pragma unroll
  for (int u = 0; u < kOctets; ++u) {
    const int row = static_cast<int>(threadIdx.x) / 16 + u * (kThreads / 16);
    const int64_t at_row = tile.first_row + half * kHalfRows + row;
    if (at_row >= p.rows) continue;
    const int64_t at = at_row * p.columns + tile.first_column + column;
    first[u] = LoadOctet(more0 + at);
    bits[u] = p.mask == nullptr ? 0xffu : p.mask[at / 8];
  }
#pragma unroll
  for (int u = 0; u < kOctets; ++u) {
    const int row = static_cast<int>(threadIdx.x) / 16 + u * (kThreads / 16);
    const int64_t at_row = tile.first_row + half * kHalfRows + row;
    if (at_row >= p.rows) continue;
    const int64_t at = at_row * p.columns + tile.first_column + column;
    const float* from = products + row * kHalfStride + column;
    float g[8], v[8];
    Unpack(first[u], v);
#pragma unroll
    for (int c = 0; c < 8; ++c) g[c] = from[c] + v[c];
    if (more1 != nullptr) {
      ReadOctet(more1 + at, v);  // seldom there: no registers are kept for it
#pragma unroll
      for (int c = 0; c < 8; ++c) g[c] += v[c];
    }
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      g[c] = (bits[u] >> c) & 1 ? ToFloat(FromFloat<__nv_bfloat16>(g[c])) : 0.0f;
      column_sum[c] += g[c];
    }
    StoreOctet(static_cast<__nv_bfloat16*>(p.g) + at, g);
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    DgradJoinKernel(const __grid_constant__ DgradJoinArgs p, float* partial) {
  __shared__ alignas(128) unsigned char shared[kSharedBytes];
  const unsigned base = SharedAddress(shared);
  const Tile tile{static_cast<int64_t>(blockIdx.y) * kRows,
                  static_cast<int>(blockIdx.x) * kColumns};
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp / 4, warp_column = warp % 4;
  float sum[4][4][4] = {};
  const int stages = p.depth / kDepth;
  LoadStage(p, tile, 0, base);
  for (int s = 0; s < stages; ++s) {
    if (s + 1 < stages) {
      LoadStage(p, tile, (s + 1) * kDepth, base + (s + 1) % 2 * kStageBytes);
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
    __syncthreads();
    MultiplyStage(base + s % 2 * kStageBytes, warp_row, warp_column, lane, sum);
    __syncthreads();
  }
  auto* products = reinterpret_cast<float*>(shared);
  float column_sum[8] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (warp_row == half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          // Row lane / 4 (and + 8), columns 2 (lane % 4) and the next.
          float* to = products + (i * 16 + lane / 4) * kHalfStride + warp_column * 32 + j * 8 +
                      lane % 4 * 2;
          to[0] = sum[i][j][0];
          to[1] = sum[i][j][1];
          to[8 * kHalfStride] = sum[i][j][2];
          to[8 * kHalfStride + 1] = sum[i][j][3];
        }
      }
    }
    __syncthreads();
    JoinHalf(p, tile, half, products, column_sum);
    __syncthreads();
  }
  // [row group][column]
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    products[threadIdx.x / 16 * kColumns + threadIdx.x % 16 * 8 + c] = column_sum[c];
  }
  __syncthreads();
  if (threadIdx.x >= kColumns) return;
  float all = 0;
#pragma unroll
  for (int r = 0; r < kThreads / 16; ++r) all += products[r * kColumns + threadIdx.x];
  partial[static_cast<int64_t>(blockIdx.y) * p.columns + tile.first_column + threadIdx.x] = all;
}

#else

__global__ void DgradJoinKernel(const __grid_constant__ DgradJoinArgs, float*) {}

#endif

size_t Aligned(size_t n) { return (n + 255) / 256 * 256; }

size_t PartialBytes(const DgradJoinPlan& plan) {
  return Aligned(static_cast<size_t>(plan.tiles) * plan.sums.channels * sizeof(float));
}

}  // namespace

DgradJoinPlan PlanDgradJoin(int64_t rows, int columns, int multiprocessors) {
  DgradJoinPlan plan;
  plan.tiles = static_cast<int>((rows + kRows - 1) / kRows);
  plan.sums = PlanBiasGrad(plan.tiles, columns, ElementType::kF32, multiprocessors);
  return plan;
}

size_t DgradJoinScratch(const DgradJoinPlan& plan) {
  return PartialBytes(plan) + BiasGradScratch(plan.sums);
}

void DgradJoin(const DgradJoinArgs& args, const DgradJoinPlan& plan, void* scratch,
               unsigned* counters, cudaStream_t stream) {
  if (plan.tiles == 0) return;
  auto* partial = static_cast<float*>(scratch);
  const dim3 grid(static_cast<unsigned>(args.columns / kColumns),
                  static_cast<unsigned>(plan.tiles));
  DgradJoinKernel<<<grid, kThreads, 0, stream>>>(args, partial);
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
