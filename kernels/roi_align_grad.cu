// The gradient by gathering: a block owns a tile of 8 x 8 pixels of one map and adds the boxes that
// touch it in their order, so there are no atomics and the sums have one order. A warp owns a row
// of the tile, a lane 16 bytes of channels; each gradient vector read serves the eight pixels of
// the row.
#include "kernels/elements.cuh"
#include "kernels/roi_align.h"
#include "kernels/roi_plan.cuh"

namespace xp::kernels {
namespace {

constexpr int kTile = 8;
constexpr int kThreads = 32 * kTile;
constexpr int kBoxes = 4;  // whose weights are in shared memory at once
constexpr int kAhead = 4;  // gradient vectors a lane has under way

struct TileGrid {
  int first[9];  // the first tile of each level; the last entry: all
  int across[8];
};

template <typename T, int V>
struct alignas(sizeof(T) * V) Piece {
  T v[V];
};

// How much pixel `pixel` gets of a bin's gradient, along one axis.
__device__ inline float AxisWeight(float start, float bin, int grid, int index, int size,
                                   int pixel) {
  float sum = 0;
  for (int i = 0; i < grid; ++i) {
    AxisSample s = SampleAxis(start, bin, grid, index, i, size);
    if (s.low == pixel) sum += s.low_weight;
    if (s.low + 1 == pixel) sum += s.high_weight;
  }
  return grid > 0 ? sum / static_cast<float>(grid) : 0;
}

// Adds a box's part to the warp's row. row_weights: a weight a bin; column_weights: eight pixels' a
// bin.
template <typename T, int V>
__device__ void AddBox(float (&sum)[kTile][V], const T* dy, int output, int channels,
                       const float* row_weights, const float (*column_weights)[kTile]) {
  int lane = threadIdx.x % 32;
  bool row_used = lane < output && row_weights[lane] != 0;
  bool column_used = false;
  if (lane < output) {
    for (int x = 0; x < kTile; ++x) column_used |= column_weights[lane][x] != 0;
  }
  unsigned rows = __ballot_sync(0xffffffffu, row_used);
  unsigned all_columns = __ballot_sync(0xffffffffu, column_used);
  for (; rows != 0; rows &= rows - 1) {
    int by = __ffs(static_cast<int>(rows)) - 1;
    float row_weight = row_weights[by];
    for (unsigned columns = all_columns; columns != 0;) {
      Piece<T, V> pieces[kAhead];
      int bins[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        bins[k] = columns != 0 ? __ffs(static_cast<int>(columns)) - 1 : -1;
        columns &= columns - 1;
        if (bins[k] < 0) continue;
        pieces[k] = *reinterpret_cast<const Piece<T, V>*>(
            dy + static_cast<int64_t>(by * output + bins[k]) * channels);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (bins[k] < 0) continue;
        float values[V];
#pragma unroll
        for (int i = 0; i < V; ++i) values[i] = ToFloat(pieces[k].v[i]);
#pragma unroll
        for (int x = 0; x < kTile; ++x) {
          float weight = row_weight * column_weights[bins[k]][x];
          if (weight == 0) continue;
#pragma unroll
          for (int i = 0; i < V; ++i) sum[x][i] = fmaf(weight, values[i], sum[x][i]);
        }
      }
    }
  }
}

// Which of the boxes base .. base + kThreads - 1 touch the tile, in order: their number, and in
// `list` which.
__device__ inline int ListBoxes(const RoiPlan* plans, int base, int rois, int level, int y0, int x0,
                                int* list) {
  __shared__ int warp_counts[kThreads / 32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int r = base + static_cast<int>(threadIdx.x);
  bool touches = false;
  if (r < rois) {
    const RoiPlan& plan = plans[r];
    touches = plan.geometry.level == level && plan.first_y < y0 + kTile && plan.last_y >= y0 &&
              plan.first_x < x0 + kTile && plan.last_x >= x0;
  }
  unsigned mask = __ballot_sync(0xffffffffu, touches);
  __syncthreads();
  if (lane == 0) warp_counts[warp] = __popc(mask);
  __syncthreads();
  int place = __popc(mask & ((1u << lane) - 1)), total = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) place += warp_counts[w];
    total += warp_counts[w];
  }
  if (touches) list[place] = r;
  __syncthreads();
  return total;
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads, 2)
    GatherTiles(const __grid_constant__ RoiParams params, const __grid_constant__ TileGrid tiles,
                int rois, int channels, const T* dy, const RoiPlan* all_plans,
                const __grid_constant__ RoiMapGrads grads) {
  __shared__ int list[kThreads];
  __shared__ float row_weights[kBoxes][kTile][kMaxRoiOutput];
  __shared__ float column_weights[kBoxes][kMaxRoiOutput][kTile];
  int image = blockIdx.z, level = 0;
  while (static_cast<int>(blockIdx.x) >= tiles.first[level + 1]) ++level;
  int tile = static_cast<int>(blockIdx.x) - tiles.first[level];
  int y0 = tile / tiles.across[level] * kTile, x0 = tile % tiles.across[level] * kTile;
  int height = params.height[level], width = params.width[level], output = params.output;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int channel = (static_cast<int>(blockIdx.y) * 32 + lane) * V;
  int safe_channel =
      channel < channels ? channel : 0;  // such a lane reads along and writes nothing
  const RoiPlan* plans = all_plans + static_cast<int64_t>(image) * rois;
  int64_t roi_elements = static_cast<int64_t>(output) * output * channels;
  const T* image_dy = dy + static_cast<int64_t>(image) * rois * roi_elements + safe_channel;

  float sum[kTile][V] = {};
  for (int base = 0; base < rois; base += kThreads) {
    int listed = ListBoxes(plans, base, rois, level, y0, x0, list);
    for (int first = 0; first < listed; first += kBoxes) {
      int some = min(kBoxes, listed - first);
      __syncthreads();
      for (int i = threadIdx.x; i < some * output * kTile * 2; i += kThreads) {
        int pixel = i % kTile, bin = i / kTile % output, rest = i / (kTile * output);
        const RoiGeometry g = plans[list[first + rest / 2]].geometry;
        if (rest % 2 == 0) {
          row_weights[rest / 2][pixel][bin] =
              AxisWeight(g.start_y, g.bin_y, g.grid_y, bin, height, y0 + pixel);
        } else {
          column_weights[rest / 2][bin][pixel] =
              AxisWeight(g.start_x, g.bin_x, g.grid_x, bin, width, x0 + pixel);
        }
      }
      __syncthreads();
      for (int b = 0; b < some; ++b) {
        AddBox<T, V>(sum, image_dy + list[first + b] * roi_elements, output, channels,
                     row_weights[b][warp], column_weights[b]);
      }
    }
  }
  int y = y0 + warp;
  if (y >= height || channel >= channels) return;
  T* out = static_cast<T*>(grads.map[level]) +
           ((static_cast<int64_t>(image) * height + y) * width + x0) * channels + channel;
#pragma unroll
  for (int x = 0; x < kTile; ++x) {
    if (x0 + x >= width) break;
    Piece<T, V> piece;
#pragma unroll
    for (int i = 0; i < V; ++i) piece.v[i] = FromFloat<T>(sum[x][i]);
    *reinterpret_cast<Piece<T, V>*>(out + static_cast<int64_t>(x) * channels) = piece;
  }
}

TileGrid MakeTiles(const RoiParams& params) {
  TileGrid tiles{};
  for (int l = 0; l < params.levels; ++l) {
    tiles.across[l] = (params.width[l] + kTile - 1) / kTile;
    tiles.first[l + 1] =
        tiles.first[l] + tiles.across[l] * ((params.height[l] + kTile - 1) / kTile);
  }
  return tiles;
}

template <typename T, int V>
void LaunchGather(const RoiAlignProblem& p, const void* dy, const RoiPlan* plans,
                  const RoiMapGrads& grads, cudaStream_t stream) {
  TileGrid tiles = MakeTiles(p.params);
  dim3 grid(static_cast<unsigned>(tiles.first[p.params.levels]),
            static_cast<unsigned>((p.channels + 32 * V - 1) / (32 * V)),
            static_cast<unsigned>(p.images));
  GatherTiles<T, V><<<grid, kThreads, 0, stream>>>(p.params, tiles, p.rois, p.channels,
                                                   static_cast<const T*>(dy), plans, grads);
}

}  // namespace

void RoiAlignGrad(const RoiAlignProblem& p, const void* dy, const Box* rois, const int32_t* counts,
                  const RoiMapGrads& grads, void* scratch, cudaStream_t stream) {
  if (p.images == 0) return;
  auto* plans = static_cast<RoiPlan*>(scratch);
  if (p.rois > 0) PlanRois(p, rois, counts, plans, stream);
  Dispatch(p.type, [&](auto zero) {
    using T = decltype(zero);
    if (p.channels % kVector<T> == 0) {
      LaunchGather<T, kVector<T>>(p, dy, plans, grads, stream);
    } else {
      LaunchGather<T, 1>(p, dy, plans, grads, stream);
    }
  });
}

}  // namespace xp::kernels
