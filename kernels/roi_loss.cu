// A warp a row; the rows' losses are added by one block in a fixed order.
#include "kernels/elements.cuh"
#include "kernels/roi_loss.h"
#include "kernels/smooth_l1.cuh"

namespace xp::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kSumThreads = 1024;

struct RowLoss {
  float classification, regression;
};

__device__ int Sampled(const int32_t* counts, int images) {
  int all = 0;
  for (int n = 0; n < images; ++n) all += counts[2 * n] + counts[2 * n + 1];
  return max(all, 1);
}

__device__ float WarpMax(float v) {
  for (int offset = 16; offset > 0; offset /= 2) {
    v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, offset));
  }
  return v;
}

__device__ float WarpSum(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}

// All lanes get the row's cross entropy.
template <typename T>
__device__ float Classification(const T* x, T* dx, int columns, int label, float gradient) {
  int lane = threadIdx.x % 32;
  float most = -INFINITY, sum = 0;
  for (int k = lane; k < columns; k += 32) most = fmaxf(most, ToFloat(x[k]));
  most = WarpMax(most);
  for (int k = lane; k < columns; k += 32) sum += expf(ToFloat(x[k]) - most);
  sum = WarpSum(sum);
  float share = gradient / sum;
  for (int k = lane; k < columns; k += 32) {
    float d = expf(ToFloat(x[k]) - most) * share;
    dx[k] = FromFloat<T>(k == label ? d - gradient : d);
  }
  return logf(sum) + most - ToFloat(x[label]);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    RowLosses(RoiLossProblem p, RoiLossInputs in, T* dlogits, T* ddeltas, RowLoss* losses) {
  int rows = p.images * p.rois, lane = threadIdx.x % 32;
  int row = static_cast<int>(blockIdx.x) * (kThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  if (row >= rows) return;
  float gradient = 1.0f / static_cast<float>(Sampled(in.counts, p.images));
  if (in.loss_scale != nullptr) gradient *= *in.loss_scale;
  int label = in.labels[row];
  bool used = label >= 0 && label < p.columns, positive = used && label != p.background;
  const T* x = static_cast<const T*>(in.logits) + static_cast<int64_t>(row) * p.columns;
  T* dx = dlogits + static_cast<int64_t>(row) * p.columns;
  RowLoss loss{0, 0};
  if (used) {
    loss.classification = Classification(x, dx, p.columns, label, gradient);
  } else {
    for (int k = lane; k < p.columns; k += 32) dx[k] = FromFloat<T>(0);
  }

  int width = p.class_agnostic ? 4 : p.columns * 4;
  int first = p.class_agnostic ? 0 : label * 4;
  const T* deltas = static_cast<const T*>(in.deltas) + static_cast<int64_t>(row) * width;
  T* d = ddeltas + static_cast<int64_t>(row) * width;
  BoxDeltas t = in.targets[row];
  for (int k = lane; k < width; k += 32) {
    float slope = 0;
    if (positive && k >= first && k < first + 4) {
      int c = k - first;
      float target = c == 0 ? t.dx : (c == 1 ? t.dy : (c == 2 ? t.dw : t.dh));
      SmoothL1 part = SmoothL1Of(ToFloat(deltas[k]) - target, p.beta);
      loss.regression += part.value;
      slope = part.slope * gradient;
    }
    d[k] = FromFloat<T>(slope);
  }
  loss.regression = WarpSum(loss.regression);
  if (lane == 0) losses[row] = loss;
}

__global__ void __launch_bounds__(kSumThreads)
    SumRows(const RowLoss* rows, int count, const int32_t* counts, int images, float* losses) {
  float classification = 0, regression = 0;
  for (int r = threadIdx.x; r < count; r += kSumThreads) {
    classification += rows[r].classification;
    regression += rows[r].regression;
  }
  classification = BlockSumInOrder<kSumThreads>(classification);
  regression = BlockSumInOrder<kSumThreads>(regression);
  if (threadIdx.x != 0) return;
  float inverse = 1.0f / static_cast<float>(Sampled(counts, images));
  losses[0] = classification * inverse;
  losses[1] = regression * inverse;
}

}  // namespace

size_t RoiLossScratch(const RoiLossProblem& p) {
  return sizeof(RowLoss) * static_cast<size_t>(p.images) * static_cast<size_t>(p.rois);
}

void RoiLoss(const RoiLossProblem& p, const RoiLossInputs& in, float* losses, void* dlogits,
             void* ddeltas, void* scratch, cudaStream_t stream) {
  auto* rows = static_cast<RowLoss*>(scratch);
  int count = p.images * p.rois;
  constexpr int kRows = kThreads / 32;
  if (count > 0) {
    Dispatch(p.type, [&](auto zero) {
      using T = decltype(zero);
      RowLosses<T><<<static_cast<unsigned>((count + kRows - 1) / kRows), kThreads, 0, stream>>>(
          p, in, static_cast<T*>(dlogits), static_cast<T*>(ddeltas), rows);
    });
  }
  SumRows<<<1, kSumThreads, 0, stream>>>(rows, count, in.counts, p.images, losses);
}

}  // namespace xp::kernels
