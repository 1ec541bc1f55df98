// The stem's weight gradient: the tiles in which a block adds up, and the sum over the blocks.
//
// Warp w has channels 16 w to + 15 and all 7 x 24 elements of the windows, in tiles of 16: the
// first 16 of each weight row r, and the last 8 of rows 2 j and 2 j + 1 together (of row 7, which
// doesn't exist, too).
#pragma once

#include "kernels/part_sums.cuh"
#include "kernels/stem_conv_units.cuh"

namespace xp::kernels {
namespace {

// A block of the gradient leaves a sum for each of these tiles of 16 x 8, lane by lane.
constexpr int kRowTiles = 7, kPairTiles = 4, kTiles = 2 * (kRowTiles + kPairTiles);
constexpr int kPartQuads = kWarps * kTiles * 32;  // quads of fp32 that a block leaves
constexpr int kUnitPixels = kUnitRows * kUnitColumns;

template <typename T>
struct StemGradArgs {
  const T *x, *dy;
  float4* partial;  // [blocks, kPartQuads]
  StemShape shape;
  Units units;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

__device__ inline void WriteSums(const float (&rows)[kRowTiles][2][4],
                                 const float (&pairs)[kPairTiles][2][4], float4* partial) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  float4* to = partial + static_cast<int64_t>(blockIdx.x) * kPartQuads + warp * kTiles * 32 + lane;
#pragma unroll
  for (int v = 0; v < kTiles; ++v) {
    const float(&c)[4] = v < 2 * kRowTiles ? rows[v / 2][v % 2] : pairs[v / 2 - kRowTiles][v % 2];
    to[v * 32] = make_float4(c[0], c[1], c[2], c[3]);
  }
}

#endif

// Where a sum of a block's tiles belongs.
template <typename T>
struct WriteStemWeight {
  T* dw;

  __device__ void operator()(int quad, int c, float sum) const {
    const int g = quad % 32 / 4, t = quad % 4, v = quad / 32 % kTiles;
    const int channel = quad / (32 * kTiles) * 16 + v % 2 * 8 + t * 2 + c % 2;
    const bool pair = v >= 2 * kRowTiles;
    // Two elements a word, of which the first doesn't count, or one: see both kernels.
    constexpr bool kPairs = sizeof(T) == 2;
    const int r = !pair ? v / 2 : (v / 2 - kRowTiles) * 2 + (kPairs ? g / 4 : c / 2);
    const int element =
        kPairs ? (pair ? 16 + g % 4 * 2 : g * 2) + c / 2 - 1 : (pair ? 16 : c / 2 * 8) + g;
    if (r >= 7 || element < 0 || element >= kWeightRow) return;
    dw[channel * kWeights + r * kWeightRow + element] = FromFloat<T>(sum);
  }
};

template <typename T>
void AddBlocks(const float4* partial, const Units& units, T* dw, cudaStream_t stream) {
  AddParts(partial, static_cast<int>(units.blocks), kPartQuads, WriteStemWeight<T>{dw}, stream);
}

}  // namespace
}  // namespace xp::kernels
