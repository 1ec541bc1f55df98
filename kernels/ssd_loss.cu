// Every default box's cross entropy, the hardest negatives of each image, then gradients.
#include <algorithm>

#include "kernels/select.cuh"
#include "kernels/smooth_l1.cuh"
#include "kernels/softmax_row.cuh"
#include "kernels/ssd.h"

namespace xp::kernels {
namespace {

constexpr int kRows = 4;  // default boxes a block, a warp each
constexpr int kSumThreads = 1024;

struct Place {
  int level;
  int64_t row;  // among the level's boxes of all images
};

__device__ Place PlaceOf(const AnchorGrid& grid, int image, int i) {
  int level = LevelOf(grid, i);
  return {level, static_cast<int64_t>(image) * grid.count(level) + i - grid.first[level]};
}

__device__ int TargetOf(const SsdProblem& p, const SsdLossInputs& in, int image, int matched) {
  if (matched < 0) return 0;
  int label = in.gt_labels[static_cast<int64_t>(image) * p.truth_capacity + matched];
  return min(max(label + 1, 0), p.columns - 1);
}

__device__ float Gradient(const SsdProblem& p, const SsdLossInputs& in) {
  int positives = 0;
  for (int n = 0; n < p.images; ++n) positives += in.counts[n];
  return 1.0f / static_cast<float>(max(positives, 1));
}

template <typename T>
__global__ void __launch_bounds__(kRows * 32)
    CrossEntropies(const __grid_constant__ SsdProblem p, const __grid_constant__ SsdLossInputs in,
                   float* losses) {
  extern __shared__ float all_exps[];
  int warp = threadIdx.x / 32, image = blockIdx.y, boxes = p.grid.total();
  int i = static_cast<int>(blockIdx.x) * kRows + warp;
  if (i >= boxes) return;
  Place place = PlaceOf(p.grid, image, i);
  const T* x = static_cast<const T*>(in.maps.cls[place.level]) + place.row * p.columns;
  RowSoftmax softmax = ExponentialsOfRow(x, p.columns, all_exps + warp * p.columns);
  if (threadIdx.x % 32 != 0) return;
  int64_t at = static_cast<int64_t>(image) * boxes + i;
  int target = TargetOf(p, in, image, in.matched[at]);
  losses[at] = PortableLog(softmax.sum) + (softmax.most - ToFloat(x[target]));
}

// Segment: an image; its negatives by loss.
struct NegativeSource {
  const float* losses;
  const int32_t* matched;
  const int32_t* counts;
  float ratio;
  int boxes;

  __device__ int Count(int) const { return boxes; }
  __device__ int Wanted(int image) const {
    return min(static_cast<int>(ratio * static_cast<float>(counts[image])), boxes);
  }
  __device__ bool Key(int image, int i, uint32_t* key) const {
    int64_t at = static_cast<int64_t>(image) * boxes + i;
    if (matched[at] >= 0) return false;
    *key = ScoreKey(losses[at]);
    return true;
  }
  __device__ uint32_t Number(int, int i) const { return static_cast<uint32_t>(i); }
};

__global__ void MarkNegatives(Selection selection, int boxes, uint8_t* taken) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), image = blockIdx.y;
  if (i >= selection.counts[image]) return;
  uint64_t key = selection.chosen[static_cast<int64_t>(image) * selection.capacity + i];
  taken[static_cast<int64_t>(image) * boxes + RankKeyNumber(key)] = 1;
}

// Also replaces a box's loss by what it counts: 0 where it isn't taken.
template <typename T>
__global__ void __launch_bounds__(kRows * 32)
    Gradients(const __grid_constant__ SsdProblem p, const __grid_constant__ SsdLossInputs in,
              const uint8_t* taken, float* losses, float* box_losses,
              const __grid_constant__ RpnMapGrads grads) {
  extern __shared__ float all_exps[];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, image = blockIdx.y;
  int boxes = p.grid.total(), i = static_cast<int>(blockIdx.x) * kRows + warp;
  if (i >= boxes) return;
  Place place = PlaceOf(p.grid, image, i);
  int64_t at = static_cast<int64_t>(image) * boxes + i;
  int matched = in.matched[at];
  bool counts = matched >= 0 || taken[at] != 0;
  float gradient = Gradient(p, in);
  if (in.loss_scale != nullptr) gradient *= *in.loss_scale;
  T* dcls = static_cast<T*>(grads.cls[place.level]) + place.row * p.columns;
  if (counts) {
    float* exps = all_exps + warp * p.columns;
    const T* x = static_cast<const T*>(in.maps.cls[place.level]) + place.row * p.columns;
    RowSoftmax softmax = ExponentialsOfRow(x, p.columns, exps);
    int target = TargetOf(p, in, image, matched);
    float share = gradient / softmax.sum;
    for (int k = lane; k < p.columns; k += 32) {
      float d = exps[k] * share;
      dcls[k] = FromFloat<T>(k == target ? d - gradient : d);
    }
  } else {
    for (int k = lane; k < p.columns; k += 32) dcls[k] = FromFloat<T>(0);
    if (lane == 0) losses[at] = 0;
  }
  float value = 0;
  if (lane < 4) {
    float slope = 0;
    if (matched >= 0) {
      Box gt = in.gt[static_cast<int64_t>(image) * p.truth_capacity + matched];
      BoxDeltas t = Encode(p.default_boxes[i], gt, p.coder);
      float target = lane == 0 ? t.dx : (lane == 1 ? t.dy : (lane == 2 ? t.dw : t.dh));
      const T* x = static_cast<const T*>(in.maps.box[place.level]) + place.row * 4;
      SmoothL1 loss = SmoothL1Of(ToFloat(x[lane]) - target, p.beta);
      value = loss.value;
      slope = loss.slope * gradient;
    }
    static_cast<T*>(grads.box[place.level])[place.row * 4 + lane] = FromFloat<T>(slope);
  }
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  value += __shfl_xor_sync(0xffffffffu, value, 2);
  if (lane == 0) box_losses[at] = value;
}

// Block: an image; sums[n] in a fixed order.
__global__ void __launch_bounds__(kSumThreads)
    SumImage(const float* losses, const float* box_losses, int boxes, float2* sums) {
  int64_t row = static_cast<int64_t>(blockIdx.x) * boxes;
  float cls = 0, box = 0;
  for (int i = threadIdx.x; i < boxes; i += kSumThreads) {
    cls += losses[row + i];
    box += box_losses[row + i];
  }
  cls = BlockSumInOrder<kSumThreads>(cls);
  box = BlockSumInOrder<kSumThreads>(box);
  if (threadIdx.x == 0) sums[blockIdx.x] = make_float2(cls, box);
}

__global__ void SumImages(const __grid_constant__ SsdProblem p,
                          const __grid_constant__ SsdLossInputs in, const float2* sums,
                          float* losses) {
  float cls = 0, box = 0;
  for (int n = 0; n < p.images; ++n) {
    cls += sums[n].x;
    box += sums[n].y;
  }
  float inverse = Gradient(p, in);
  losses[0] = cls * inverse;
  losses[1] = box * inverse;
}

struct Work {
  Work(const SsdProblem& p, void* base)
      : scratch(base),
        all(static_cast<int64_t>(p.images) * p.grid.total()),
        losses(scratch.Take<float>(all)),
        box_losses(scratch.Take<float>(all)),
        taken(scratch.Take<uint8_t>(all)),
        sums(scratch.Take<float2>(p.images)),
        selection(scratch, p.images, p.grid.total(), p.grid.total()) {}

  Scratch scratch;
  int64_t all;
  float *losses, *box_losses;
  uint8_t* taken;
  float2* sums;
  Selection selection;
};

}  // namespace

size_t SsdLossScratch(const SsdProblem& p) { return Work(p, nullptr).scratch.used(); }

void SsdLoss(const SsdProblem& p, const SsdLossInputs& in, float* losses, const RpnMapGrads& grads,
             void* scratch, cudaStream_t stream) {
  if (p.images == 0) return;
  Work work(p, scratch);
  int boxes = p.grid.total();
  unsigned images = static_cast<unsigned>(p.images);
  dim3 rows(static_cast<unsigned>((boxes + kRows - 1) / kRows), images);
  size_t shared = sizeof(float) * kRows * static_cast<size_t>(p.columns);
  Dispatch(p.type, [&](auto zero) {
    using T = decltype(zero);
    CrossEntropies<T><<<rows, kRows * 32, shared, stream>>>(p, in, work.losses);
    Select(NegativeSource{work.losses, in.matched, in.counts, p.negative_ratio, boxes},
           work.selection, stream);
    cudaMemsetAsync(work.taken, 0, static_cast<size_t>(work.all), stream);
    MarkNegatives<<<dim3(static_cast<unsigned>((boxes + 255) / 256), images), 256, 0, stream>>>(
        work.selection, boxes, work.taken);
    Gradients<T><<<rows, kRows * 32, shared, stream>>>(p, in, work.taken, work.losses,
                                                       work.box_losses, grads);
  });
  SumImage<<<images, kSumThreads, 0, stream>>>(work.losses, work.box_losses, boxes, work.sums);
  SumImages<<<1, 1, 0, stream>>>(p, in, work.sums, losses);
}

}  // namespace xp::kernels
