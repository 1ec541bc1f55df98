// SGD and LARS: g = rate * (factor * gradient + decay * p); m = momentum * m + g; p -= lr *
// (nesterov ? g + momentum * m : m).
#include "kernels/optimizer.h"
#include "kernels/update_chunk.cuh"

namespace xp::kernels {
namespace {

template <typename T>
__global__ void __launch_bounds__(kUpdateThreads)
    SgdKernel(const __grid_constant__ SgdArgs p, const UpdateChunk* chunks) {
  const UpdateChunk chunk = chunks[blockIdx.x];
  const float factor = p.common.factor != nullptr ? *p.common.factor : 1.0f;
  if (factor == 0) return;
  const float lr = *p.common.lr * chunk.lr_multiplier;
  const float rate = p.rates != nullptr ? p.rates[chunk.segment] : 1.0f;
  ForChunk(chunk, [&](auto vector, int64_t at) {
    constexpr int V = decltype(vector)::value;
    float g[V], w[V], m[V];
    ReadGradient<T>(p.common.gradients, chunk, at, g);
    ReadVector<V>(p.common.param + at, w);
    ReadVector<V>(p.momentum_buffer + at, m);
    Unscale(g, factor, p.common.max_value);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      g[k] = rate * (g[k] + chunk.decay * w[k]);
      m[k] = p.momentum * m[k] + g[k];
      w[k] -= lr * (p.nesterov ? g[k] + p.momentum * m[k] : m[k]);
    }
    WriteVector<V>(p.momentum_buffer + at, m);
    WriteVector<V>(p.common.param + at, w);
    if (p.common.param_compute != nullptr) {
      WriteVector<V>(static_cast<T*>(p.common.param_compute) + at, w);
    }
  });
}

// squares: [chunks][2], of the parameters and of the gradients.
template <typename T>
__global__ void __launch_bounds__(kUpdateThreads)
    SquaresKernel(const __grid_constant__ SgdArgs p, const UpdateChunk* chunks, double* squares) {
  const UpdateChunk chunk = chunks[blockIdx.x];
  const float factor = p.common.factor != nullptr ? *p.common.factor : 1.0f;
  double of_param = 0, of_grad = 0;
  ForChunk(chunk, [&](auto vector, int64_t at) {
    constexpr int V = decltype(vector)::value;
    float g[V], w[V];
    ReadGradient<T>(p.common.gradients, chunk, at, g);
    ReadVector<V>(p.common.param + at, w);
    Unscale(g, factor, p.common.max_value);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      of_param += static_cast<double>(w[k]) * static_cast<double>(w[k]);
      of_grad += static_cast<double>(g[k]) * static_cast<double>(g[k]);
    }
  });
  of_param = BlockSum(of_param);
  of_grad = BlockSum(of_grad);
  if (threadIdx.x != 0) return;
  squares[2 * blockIdx.x] = of_param;
  squares[2 * blockIdx.x + 1] = of_grad;
}

__global__ void __launch_bounds__(kUpdateThreads)
    RatesKernel(const double* squares, const SegmentChunks* segments, float trust, float* rates) {
  const SegmentChunks segment = segments[blockIdx.x];
  double p2 = 0, g2 = 0;
  for (int i = static_cast<int>(threadIdx.x); i < segment.count; i += kUpdateThreads) {
    p2 += squares[2 * (segment.first + i)];
    g2 += squares[2 * (segment.first + i) + 1];
  }
  p2 = BlockSum(p2);
  g2 = BlockSum(g2);
  if (threadIdx.x != 0) return;
  const double p = sqrt(p2), g = sqrt(g2);
  // A layer that is still zero, or has no gradient, moves by the global rate.
  rates[blockIdx.x] =
      p > 0 && g > 0 ? static_cast<float>(trust * p / (g + segment.decay * p)) : 1.0f;
}

}  // namespace

void Sgd(const SgdArgs& args, const UpdateChunk* chunks, int count, ElementType compute,
         cudaStream_t stream) {
  if (count == 0) return;
  Dispatch(compute, [&](auto zero) {
    SgdKernel<decltype(zero)>
        <<<static_cast<unsigned>(count), kUpdateThreads, 0, stream>>>(args, chunks);
  });
}

void Lars(const SgdArgs& args, float trust, const UpdateChunk* chunks, int count,
          const SegmentChunks* segments, int segment_count, void* scratch, ElementType compute,
          cudaStream_t stream) {
  if (count == 0) return;
  auto* squares = static_cast<double*>(scratch);
  auto* rates = reinterpret_cast<float*>(squares + 2 * static_cast<size_t>(count));
  Dispatch(compute, [&](auto zero) {
    SquaresKernel<decltype(zero)>
        <<<static_cast<unsigned>(count), kUpdateThreads, 0, stream>>>(args, chunks, squares);
  });
  RatesKernel<<<static_cast<unsigned>(segment_count), kUpdateThreads, 0, stream>>>(
      squares, segments, trust, rates);
  SgdArgs with_rates = args;
  with_rates.rates = rates;
  Sgd(with_rates, chunks, count, compute, stream);
}

}  // namespace xp::kernels
