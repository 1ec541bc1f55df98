#include "kernels/elements.cuh"
#include "kernels/rpn_loss.h"
#include "kernels/smooth_l1.cuh"

namespace xp::kernels {
namespace {

constexpr int kThreads = 1024;

// One block: the samples are few (4,096 in a batch of 16) and the sums have one order.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    SampleLosses(const __grid_constant__ RpnLossProblem p, const __grid_constant__ RpnMaps maps,
                 const int32_t* sampled, const BoxDeltas* targets, const int32_t* counts,
                 const float* loss_scale, float* losses,
                 const __grid_constant__ RpnMapGrads grads) {
  int all = 0;
  for (int n = 0; n < p.images; ++n) all += counts[2 * n] + counts[2 * n + 1];
  float inverse = 1.0f / static_cast<float>(max(all, 1));
  float gradient = loss_scale != nullptr ? inverse * *loss_scale : inverse;
  float objectness = 0, regression = 0;
  for (int64_t s = threadIdx.x; s < static_cast<int64_t>(p.images) * p.samples; s += kThreads) {
    int image = static_cast<int>(s / p.samples), i = static_cast<int>(s % p.samples);
    int positives = counts[2 * image];
    if (i >= positives + counts[2 * image + 1]) continue;
    int level = LevelOf(p.grid, sampled[s]);
    int64_t at =
        static_cast<int64_t>(image) * p.grid.count(level) + sampled[s] - p.grid.first[level];
    float x = ToFloat(static_cast<const T*>(maps.cls[level])[at]);
    float label = i < positives ? 1.0f : 0.0f;
    float e = expf(-fabsf(x));
    objectness += fmaxf(x, 0.0f) - x * label + log1pf(e);
    float sigmoid = x >= 0 ? 1 / (1 + e) : e / (1 + e);
    if (grads.cls[level] != nullptr) {
      static_cast<T*>(grads.cls[level])[at] = FromFloat<T>((sigmoid - label) * gradient);
    }
    if (i >= positives) continue;
    const T* predicted = static_cast<const T*>(maps.box[level]) + at * 4;
    BoxDeltas t = targets[s];
    const float target[4] = {t.dx, t.dy, t.dw, t.dh};
    for (int c = 0; c < 4; ++c) {
      SmoothL1 loss = SmoothL1Of(ToFloat(predicted[c]) - target[c], p.beta);
      regression += loss.value;
      if (grads.box[level] != nullptr) {
        static_cast<T*>(grads.box[level])[at * 4 + c] = FromFloat<T>(loss.slope * gradient);
      }
    }
  }
  objectness = BlockSumInOrder<kThreads>(objectness);
  regression = BlockSumInOrder<kThreads>(regression);
  if (threadIdx.x == 0) {
    losses[0] = objectness * inverse;
    losses[1] = regression * inverse;
  }
}

}  // namespace

void RpnLoss(const RpnLossProblem& p, const RpnMaps& maps, const int32_t* sampled,
             const BoxDeltas* targets, const int32_t* counts, const float* loss_scale,
             float* losses, const RpnMapGrads& grads, cudaStream_t stream) {
  Dispatch(p.type, [&](auto zero) {
    using T = decltype(zero);
    for (int l = 0; l < p.grid.levels; ++l) {
      size_t bytes =
          static_cast<size_t>(p.images) * static_cast<size_t>(p.grid.count(l)) * sizeof(T);
      if (grads.cls[l] != nullptr) cudaMemsetAsync(grads.cls[l], 0, bytes, stream);
      if (grads.box[l] != nullptr) cudaMemsetAsync(grads.box[l], 0, bytes * 4, stream);
    }
    SampleLosses<T>
        <<<1, kThreads, 0, stream>>>(p, maps, sampled, targets, counts, loss_scale, losses, grads);
  });
}

}  // namespace xp::kernels
