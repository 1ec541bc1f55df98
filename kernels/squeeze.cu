// z = norm(x) is neither written nor read: its mean over an image is the norm of x's mean, and its
// product with a gradient follows from the sums of g and of g (x - mean) over the image. With the
// gate s and the pooled value's gradient q over the pixels P, what flows into z is s g + q / P.
#include "kernels/squeeze.h"

#include "kernels/image_sums.cuh"
#include "kernels/row_grid.cuh"

namespace xp::kernels {
namespace {

// Half as many threads as other sums over images have: several blocks a multiprocessor hide that
// each has few pixels and then waits for its tree.
constexpr int kThreads = kColumnThreads / 2;
constexpr int kScratch = kColumnScratch<8, 2> / 2;

ImageSums Plan(const SqueezeShape& s) {
  ImageSums plan = PlanImageSums(s.images, s.pixels, s.channels);
  const unsigned most = kThreads / plan.block.x;
  if (plan.block.y > most) plan.block.y = most;
  return plan;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    StatisticsKernel(const __grid_constant__ SqueezeStatisticsArgs p, int pixels, int channels,
                     int images, float* partial, unsigned* counters) {
  __shared__ float scratch[kScratch];
  const auto* x = static_cast<const T*>(p.x);
  const int channel = ThreadChannel<8>();
  const int64_t image = blockIdx.y;
  float sum[16] = {}, shift[8] = {};  // sums of x - shift, then of their squares
  if (channel < channels) {
    const T* from = x + image * pixels * channels + channel;
    ReadOctet(from, shift);
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.y); i < pixels; i += static_cast<int>(blockDim.y)) {
      float v[8];
      ReadOctet(from + static_cast<int64_t>(i) * channels, v);
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const float d = v[c] - shift[c];
        sum[c] += d;
        sum[8 + c] += d * d;
      }
    }
  }
  AddRowLanes(sum, scratch);
  const float rows = static_cast<float>(pixels);
#pragma unroll
  for (int c = 0; c < 8; ++c) {  // now the mean and the sum of squared deviations
    const float d = sum[c] / rows;
    sum[8 + c] = fmaxf(sum[8 + c] - sum[c] * d, 0.0f);
    sum[c] = shift[c] + d;
  }
  WritePartial<8, 2>(partial, images, sum);
  if (threadIdx.y == 0 && channel < channels) {
    float* to = p.image_mean + image * channels + channel;
#pragma unroll
    for (int c = 0; c < 8; ++c) to[c] = sum[c];
  }
  if (!LastOfTile(counters, images)) return;

  const int width = static_cast<int>(blockDim.x) * 8, first = static_cast<int>(blockIdx.x) * width;
  const float* means = partial + static_cast<int64_t>(blockIdx.x) * images * 2 * width;  // image 0
  const Columns m{static_cast<int64_t>(images) * pixels, channels, images};
  AddParts<8, 2>(
      partial, m, scratch,
      [&](int, int c, const float(&value)[2], float(&total)[2]) {
        const float d = value[0] - means[c];
        total[0] += rows * d;
        total[1] += value[1] + rows * d * d;
      },
      [&](int c, const float(&total)[2]) {
        const float n = static_cast<float>(m.rows);
        const float d = total[0] / n, mean = means[c - first] + d;
        const float squares = fmaxf(total[1] - total[0] * d, 0.0f);
        p.save_mean[c] = mean;
        p.save_invstd[c] = 1.0f / sqrtf(squares / n + p.eps);
        const float unbiased = squares / fmaxf(n - 1, 1.0f);
        p.mean_after[c] = (1 - p.momentum) * p.mean[c] + p.momentum * mean;
        p.var_after[c] = (1 - p.momentum) * p.var[c] + p.momentum * unbiased;
      });
  __syncthreads();  // what the loop below reads, other threads of this block have written
  const int threads = static_cast<int>(blockDim.x * blockDim.y);
  for (int i = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); i < images * width;
       i += threads) {
    const int n = i / width, c = first + i - n * width;
    if (c >= channels) continue;
    const float image_mean =
        partial[(static_cast<int64_t>(blockIdx.x) * images + n) * 2 * width + i - n * width];
    const float z = (image_mean - p.save_mean[c]) * (p.scale[c] * p.save_invstd[c]) + p.bias[c];
    static_cast<T*>(p.pooled)[static_cast<int64_t>(n) * channels + c] = FromFloat<T>(z);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 3)
    SumsKernel(const __grid_constant__ SqueezeSumsArgs p, int pixels, int channels, int images) {
  __shared__ float scratch[kScratch];
  const auto *dy0 = static_cast<const T*>(p.dy[0]), *dy1 = static_cast<const T*>(p.dy[1]),
             *dy2 = static_cast<const T*>(p.dy[2]), *x = static_cast<const T*>(p.x);
  const int channel = ThreadChannel<8>();
  const int64_t image = blockIdx.y, base = image * pixels * channels + channel;
  float sum[16] = {}, mean[8];
  if (channel < channels) {
    ReadOctet(p.mean + channel, mean);
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.y); i < pixels; i += static_cast<int>(blockDim.y)) {
      const int64_t at = base + static_cast<int64_t>(i) * channels;
      Octet<T> raw = LoadOctet(dy0 + at), more{}, most{};
      const Octet<T> raw_x = LoadOctet(x + at);
      if (dy1 != nullptr) more = LoadOctet(dy1 + at);
      if (dy2 != nullptr) most = LoadOctet(dy2 + at);
      const unsigned bits = p.mask == nullptr ? 0xffu : p.mask[at / 8];
      float g[8], v[8];
      Unpack(raw, g);
      if (dy1 != nullptr) {
        Unpack(more, v);
#pragma unroll
        for (int c = 0; c < 8; ++c) g[c] += v[c];
      }
      if (dy2 != nullptr) {
        Unpack(most, v);
#pragma unroll
        for (int c = 0; c < 8; ++c) g[c] += v[c];
      }
#pragma unroll
      for (int c = 0; c < 8; ++c) g[c] = (bits >> c) & 1 ? ToFloat(FromFloat<T>(g[c])) : 0.0f;
      if (p.g != nullptr) StoreOctet(static_cast<T*>(p.g) + at, g);
      Unpack(raw_x, v);
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        sum[c] += g[c];
        sum[8 + c] += g[c] * (v[c] - mean[c]);
      }
    }
  }
  AddRowLanes(sum, scratch);
  if (threadIdx.y != 0 || channel >= channels) return;
  const int64_t to = image * channels + channel, second = static_cast<int64_t>(images) * channels;
  float dgate[8];
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    p.sums[to + c] = sum[c];
    p.sums[second + to + c] = sum[8 + c];
    dgate[c] =
        p.scale[channel + c] * p.invstd[channel + c] * sum[8 + c] + p.bias[channel + c] * sum[c];
  }
  StoreOctet(static_cast<T*>(p.dgate) + to, dgate);
}

constexpr int kFactorLanes = 32, kFactorRows = 16;

// A block has 32 channels; its rows share the images.
template <typename T>
__global__ void __launch_bounds__(kFactorLanes* kFactorRows)
    FactorsKernel(const __grid_constant__ SqueezeFactorsArgs p, int pixels, int channels,
                  int images) {
  __shared__ float scratch[2][kFactorRows][kFactorLanes + 1];
  const int lane = static_cast<int>(threadIdx.x), row = static_cast<int>(threadIdx.y);
  const int c = static_cast<int>(blockIdx.x) * kFactorLanes + lane;
  const bool inside = c < channels;
  const int64_t second = static_cast<int64_t>(images) * channels;
  const auto *gate = static_cast<const T*>(p.gate), *dpooled = static_cast<const T*>(p.dpooled);
  const float mean = inside ? p.mean[c] : 0;
  float sum = 0, along = 0;  // of dz, of dz * (x - mean)
  for (int n = row; inside && n < images; n += kFactorRows) {
    const int64_t at = static_cast<int64_t>(n) * channels + c;
    const float s = ToFloat(gate[at]), q = ToFloat(dpooled[at]);
    sum += s * p.sums[at] + q;
    along += s * p.sums[second + at] + q * (p.image_mean[at] - mean);
  }
  scratch[0][row][lane] = sum;
  scratch[1][row][lane] = along;
  __syncthreads();
  if (!inside) return;
  sum = along = 0;
#pragma unroll
  for (int r = 0; r < kFactorRows; ++r) {
    sum += scratch[0][r][lane];
    along += scratch[1][r][lane];
  }
  const float invstd = p.invstd[c], dscale = along * invstd, a = p.scale[c] * invstd;
  const float n_all = static_cast<float>(static_cast<int64_t>(images) * pixels);
  const float b = -a * invstd * (dscale / n_all);
  const float shift = -a * (sum / n_all) - b * mean;
  if (row == 0) {
    if (p.dscale != nullptr) p.dscale[c] = dscale;
    if (p.dbias != nullptr) p.dbias[c] = sum;
    p.common[c] = b;
  }
  for (int n = row; n < images; n += kFactorRows) {
    const int64_t at = static_cast<int64_t>(n) * channels + c;
    p.slopes[at] = a * ToFloat(gate[at]);
    p.shifts[at] = shift + a * (ToFloat(dpooled[at]) / static_cast<float>(pixels));
  }
}

constexpr int kPixels = 2;  // a thread

// Block dim3(lanes, pixels), grid dim3(blocks of pixels, tiles of channels, images).
template <typename T>
__global__ void __launch_bounds__(kApplyThreads)
    ApplyKernel(const T* g, const T* x, const float* slopes, const float* shifts,
                const float* common, T* dx, int pixels, int channels) {
  const int channel = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * 8;
  if (channel >= channels) return;
  // The sums before left the last images in the L2 cache.
  const int64_t image = gridDim.z - 1 - blockIdx.z;
  const int first =
      static_cast<int>(blockIdx.x * blockDim.y) * kPixels + static_cast<int>(threadIdx.y);
  const int64_t base = image * pixels * channels + channel;
  Octet<T> raw_g[kPixels], raw_x[kPixels];
#pragma unroll
  for (int u = 0; u < kPixels; ++u) {
    const int64_t i = first + u * static_cast<int>(blockDim.y);
    if (i >= pixels) continue;
    raw_g[u] = LoadOctet(g + base + i * channels);
    raw_x[u] = LoadOctet(x + base + i * channels);
  }
  float slope[8], shift[8], factor[8];
  ReadOctet(slopes + image * channels + channel, slope);
  ReadOctet(shifts + image * channels + channel, shift);
  ReadOctet(common + channel, factor);
#pragma unroll
  for (int u = 0; u < kPixels; ++u) {
    const int64_t i = first + u * static_cast<int>(blockDim.y);
    if (i >= pixels) continue;
    float a[8], v[8];
    Unpack(raw_g[u], a);
    Unpack(raw_x[u], v);
#pragma unroll
    for (int c = 0; c < 8; ++c) v[c] = slope[c] * a[c] + (factor[c] * v[c] + shift[c]);
    StoreOctet(dx + base + i * channels, v);
  }
}

}  // namespace

size_t SqueezeStatisticsScratch(const SqueezeShape& s) {
  if (s.empty()) return 0;
  const ImageSums plan = Plan(s);
  return size_t{plan.grid.x} * plan.grid.y * plan.block.x * 8 * 2 * sizeof(float);
}

int SqueezeStatisticsCounters(const SqueezeShape& s) {
  return s.empty() ? 0 : static_cast<int>(Plan(s).grid.x);
}

void SqueezeStatistics(const SqueezeStatisticsArgs& args, const SqueezeShape& s, void* scratch,
                       unsigned* counters, ElementType type, cudaStream_t stream) {
  if (s.empty()) return;
  const ImageSums plan = Plan(s);
  Dispatch(type, [&](auto zero) {
    StatisticsKernel<decltype(zero)><<<plan.grid, plan.block, 0, stream>>>(
        args, s.pixels, s.channels, s.images, static_cast<float*>(scratch), counters);
  });
}

void SqueezeSums(const SqueezeSumsArgs& args, const SqueezeShape& s, ElementType type,
                 cudaStream_t stream) {
  if (s.empty()) return;
  const ImageSums plan = Plan(s);
  Dispatch(type, [&](auto zero) {
    SumsKernel<decltype(zero)>
        <<<plan.grid, plan.block, 0, stream>>>(args, s.pixels, s.channels, s.images);
  });
}

void SqueezeFactors(const SqueezeFactorsArgs& args, const SqueezeShape& s, ElementType type,
                    cudaStream_t stream) {
  if (s.empty()) return;
  Dispatch(type, [&](auto zero) {
    FactorsKernel<decltype(zero)>
        <<<CeilDiv(s.channels, kFactorLanes), dim3(kFactorLanes, kFactorRows), 0, stream>>>(
            args, s.pixels, s.channels, s.images);
  });
}

void SqueezeApply(const void* g, const void* x, const float* slopes, const float* shifts,
                  const float* common, void* dx, const SqueezeShape& s, ElementType type,
                  cudaStream_t stream) {
  if (s.empty()) return;
  RowGrid plan = PlanRows(s.pixels, s.channels / 8, kPixels);
  plan.grid.z = static_cast<unsigned>(s.images);
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    ApplyKernel<T><<<plan.grid, plan.block, 0, stream>>>(
        static_cast<const T*>(g), static_cast<const T*>(x), slopes, shifts, common,
        static_cast<T*>(dx), s.pixels, s.channels);
  });
}

}  // namespace xp::kernels
