// Small matrices (a weight's size): a block or a warp a row, sums by a fixed tree.
#include "kernels/gram.h"

#include "kernels/octet.cuh"

namespace xp::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kRowsABlock = kThreads / kWarp;

__device__ inline float WarpSum(float v) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) v += __shfl_xor_sync(~0u, v, offset);
  return v;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) Centre(const __grid_constant__ GramCentreArgs p) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i < p.channels) p.centre[i] = p.sum[i] / p.rows;
  if (i < p.channels * p.channels) {
    const float a = p.sum[i / p.channels] / p.rows, b = p.sum[i % p.channels] / p.rows;
    p.gram[i] = p.gram[i] / p.rows - a * b;
  }
  if (p.wide != nullptr && i < p.outputs * p.channels) {
    p.wide[i] = ToFloat(static_cast<const T*>(p.w)[i]);
  }
}

// A warp an output channel.
__global__ void __launch_bounds__(kThreads)
    Statistics(const __grid_constant__ GramStatisticsArgs p) {
  const int k = static_cast<int>(blockIdx.x) * kRowsABlock + static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (k >= p.outputs) return;
  const float *w = p.w + static_cast<int64_t>(k) * p.channels,
              *product = p.product + static_cast<int64_t>(k) * p.channels;
  float mean = 0, variance = 0;
  for (int c = lane; c < p.channels; c += kWarp) {
    mean += w[c] * p.centre[c];
    variance += w[c] * product[c];
  }
  mean = WarpSum(mean);
  variance = fmaxf(WarpSum(variance), 0.0f);
  if (lane != 0) return;
  p.save_mean[k] = mean;
  p.save_invstd[k] = 1.0f / sqrtf(variance + p.eps);
  // The running variance is unbiased; of a single value it is 0.
  const float unbiased = variance * (p.rows / fmaxf(p.rows - 1, 1.0f));
  p.mean_after[k] = (1 - p.momentum) * p.mean[k] + p.momentum * mean;
  p.var_after[k] = (1 - p.momentum) * p.var[k] + p.momentum * unbiased;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) GradRows(const __grid_constant__ GramGradArgs p) {
  const int k = static_cast<int>(blockIdx.x) * kRowsABlock + static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (k >= p.outputs) return;
  const int64_t row = static_cast<int64_t>(k) * p.channels;
  const T* w = static_cast<const T*>(p.w) + row;
  const float dbias = p.dbias[k], invstd = p.save_invstd[k];
  float along = 0;  // the sum of g * (y - mean)
  for (int c = lane; c < p.channels; c += kWarp) {
    along += ToFloat(w[c]) * (p.cross[row + c] - dbias * p.centre[c]);
  }
  along = WarpSum(along);
  const float slope = p.scale[k] * invstd;
  const float b = -slope * invstd * invstd * (along / p.rows);
  if (lane == 0) {
    p.dscale[k] = along * invstd;
    p.constant[k] = -slope * (dbias / p.rows) - b * p.save_mean[k];
  }
  const float all = b * p.rows;
  for (int c = lane; c < p.channels; c += kWarp) {
    const float weight = ToFloat(w[c]);
    const float centred = p.cross[row + c] - dbias * p.centre[c];
    if (p.dw != nullptr) {
      static_cast<T*>(p.dw)[row + c] = FromFloat<T>(slope * centred + all * p.product[row + c]);
    }
    static_cast<T*>(p.scaled)[row + c] = FromFloat<T>(slope * weight);
    if (p.wide != nullptr) p.wide[row + c] = weight;
    p.scaled_wide[row + c] = b * weight;
  }
}

// The first blocks round the matrix; the others have 32 columns of the shift each, eight rows at
// once.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    GradColumns(const float* mix, T* rounded, const float* constant, const float* wide,
                float* shift, int channels, int outputs, int rounding_blocks) {
  if (static_cast<int>(blockIdx.x) < rounding_blocks) {
    const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
    if (i < channels * channels) rounded[i] = FromFloat<T>(mix[i]);
    return;
  }
  __shared__ float sums[kRowsABlock][kWarp + 1];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = static_cast<int>(threadIdx.x) / kWarp;
  const int c = (static_cast<int>(blockIdx.x) - rounding_blocks) * kWarp + lane;
  float sum = 0;
  if (c < channels) {
    for (int k = group; k < outputs; k += kRowsABlock) {
      sum += constant[k] * wide[static_cast<int64_t>(k) * channels + c];
    }
  }
  sums[group][lane] = sum;
  __syncthreads();
  if (group != 0 || c >= channels) return;
  float all = 0;
#pragma unroll
  for (int g = 0; g < kRowsABlock; ++g) all += sums[g][lane];
  shift[c] = all;
}

}  // namespace

void GramCentre(const GramCentreArgs& args, ElementType type, cudaStream_t stream) {
  const int64_t items =
      static_cast<int64_t>(args.channels) *
      (args.wide != nullptr && args.outputs > args.channels ? args.outputs : args.channels);
  if (items == 0) return;
  Dispatch(type, [&](auto zero) {
    Centre<decltype(zero)><<<CeilDiv(items, kThreads), kThreads, 0, stream>>>(args);
  });
}

void GramStatistics(const GramStatisticsArgs& args, cudaStream_t stream) {
  if (args.outputs == 0) return;
  Statistics<<<CeilDiv(args.outputs, kRowsABlock), kThreads, 0, stream>>>(args);
}

void GramGradRows(const GramGradArgs& args, ElementType type, cudaStream_t stream) {
  if (args.outputs == 0) return;
  Dispatch(type, [&](auto zero) {
    GradRows<decltype(zero)><<<CeilDiv(args.outputs, kRowsABlock), kThreads, 0, stream>>>(args);
  });
}

void GramGradColumns(const float* mix, void* rounded, const float* constant, const float* wide,
                     float* shift, int channels, int outputs, ElementType type,
                     cudaStream_t stream) {
  if (channels == 0) return;
  const int rounding =
      static_cast<int>(CeilDiv(static_cast<int64_t>(channels) * channels, kThreads));
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    GradColumns<T>
        <<<static_cast<unsigned>(rounding) + CeilDiv(channels, kWarp), kThreads, 0, stream>>>(
            mix, static_cast<T*>(rounded), constant, wide, shift, channels, outputs, rounding);
  });
}

}  // namespace xp::kernels
