// A block pools one box: a warp takes a bin, a lane 16 bytes of channels. Where the samples lie is
// worked out once a block.
#include "kernels/elements.cuh"
#include "kernels/roi_align.h"
#include "kernels/roi_plan.cuh"

namespace xp::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kTable =
    64;  // samples an axis that the block keeps; more are worked out again and again

// V: elements a lane reads at once, 1 where channels don't come in multiples of 16 bytes.
template <typename T, int V>
struct alignas(sizeof(T) * V) Piece {
  T v[V];
};

template <typename T, int V>
__device__ void AddScaled(float (&sum)[V], const T* from, float weight) {
  Piece<T, V> piece = *reinterpret_cast<const Piece<T, V>*>(from);
#pragma unroll
  for (int i = 0; i < V; ++i) sum[i] = fmaf(weight, ToFloat(piece.v[i]), sum[i]);
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    Pool(const __grid_constant__ RoiParams params, int rois, int channels,
         const __grid_constant__ RoiMaps maps, const RoiPlan* plans, T* y) {
  __shared__ AxisSample rows[kTable], columns[kTable];
  int r = blockIdx.x;
  RoiGeometry g = plans[r].geometry;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int channel = (static_cast<int>(blockIdx.y) * 32 + lane) * V;
  int bins = params.output * params.output;
  T* out = y + static_cast<int64_t>(r) * bins * channels + channel;
  if (g.level < 0) {
    if (channel >= channels) return;
    Piece<T, V> zero{};
    for (int bin = warp; bin < bins; bin += kThreads / 32) {
      *reinterpret_cast<Piece<T, V>*>(out + static_cast<int64_t>(bin) * channels) = zero;
    }
    return;
  }
  int height = params.height[g.level], width = params.width[g.level];
  bool tabled = params.output * g.grid_y <= kTable && params.output * g.grid_x <= kTable;
  for (int i = threadIdx.x; tabled && i < params.output * g.grid_y; i += kThreads) {
    rows[i] = SampleAxis(g.start_y, g.bin_y, g.grid_y, i / g.grid_y, i % g.grid_y, height);
  }
  for (int i = threadIdx.x; tabled && i < params.output * g.grid_x; i += kThreads) {
    columns[i] = SampleAxis(g.start_x, g.bin_x, g.grid_x, i / g.grid_x, i % g.grid_x, width);
  }
  __syncthreads();
  if (channel >= channels) return;
  const T* map = static_cast<const T*>(maps.map[g.level]) +
                 static_cast<int64_t>(r / rois) * height * width * channels + channel;
  int samples = g.grid_y * g.grid_x;
  float share = 1.0f / static_cast<float>(samples > 0 ? samples : 1);
  for (int bin = warp; bin < bins; bin += kThreads / 32) {
    int by = bin / params.output, bx = bin % params.output;
    float sum[V] = {};
    for (int iy = 0; iy < g.grid_y; ++iy) {
      AxisSample sy = tabled ? rows[by * g.grid_y + iy]
                             : SampleAxis(g.start_y, g.bin_y, g.grid_y, by, iy, height);
      if (sy.low_weight == 0 && sy.high_weight == 0) continue;
      const T* low_row = map + static_cast<int64_t>(sy.low) * width * channels;
      const T* high_row =
          sy.high_weight != 0 ? low_row + static_cast<int64_t>(width) * channels : low_row;
      for (int ix = 0; ix < g.grid_x; ++ix) {
        AxisSample sx = tabled ? columns[bx * g.grid_x + ix]
                               : SampleAxis(g.start_x, g.bin_x, g.grid_x, bx, ix, width);
        if (sx.low_weight == 0 && sx.high_weight == 0) continue;
        int64_t low = static_cast<int64_t>(sx.low) * channels;
        int64_t high = sx.high_weight != 0 ? low + channels : low;
        AddScaled<T, V>(sum, low_row + low, sy.low_weight * sx.low_weight);
        AddScaled<T, V>(sum, low_row + high, sy.low_weight * sx.high_weight);
        AddScaled<T, V>(sum, high_row + low, sy.high_weight * sx.low_weight);
        AddScaled<T, V>(sum, high_row + high, sy.high_weight * sx.high_weight);
      }
    }
    Piece<T, V> piece;
#pragma unroll
    for (int i = 0; i < V; ++i) piece.v[i] = FromFloat<T>(sum[i] * share);
    *reinterpret_cast<Piece<T, V>*>(out + static_cast<int64_t>(bin) * channels) = piece;
  }
}

template <typename T, int V>
void LaunchPool(const RoiAlignProblem& p, const RoiMaps& maps, const RoiPlan* plans, void* y,
                cudaStream_t stream) {
  dim3 grid(static_cast<unsigned>(p.images * p.rois),
            static_cast<unsigned>((p.channels + 32 * V - 1) / (32 * V)));
  Pool<T, V><<<grid, kThreads, 0, stream>>>(p.params, p.rois, p.channels, maps, plans,
                                            static_cast<T*>(y));
}

}  // namespace

size_t RoiAlignScratch(const RoiAlignProblem& p) {
  return sizeof(RoiPlan) * static_cast<size_t>(p.images) * static_cast<size_t>(p.rois);
}

void RoiAlign(const RoiAlignProblem& p, const RoiMaps& maps, const Box* rois, const int32_t* counts,
              void* y, void* scratch, cudaStream_t stream) {
  if (p.images * p.rois == 0) return;
  auto* plans = static_cast<RoiPlan*>(scratch);
  PlanRois(p, rois, counts, plans, stream);
  Dispatch(p.type, [&](auto zero) {
    using T = decltype(zero);
    if (p.channels % kVector<T> == 0) {
      LaunchPool<T, kVector<T>>(p, maps, plans, y, stream);
    } else {
      LaunchPool<T, 1>(p, maps, plans, y, stream);
    }
  });
}

}  // namespace xp::kernels
