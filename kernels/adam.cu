// Adam and AdamW as torch.optim: m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr * (m / (1
// - b1^t)) / (sqrt(v / (1 - b2^t)) + eps). The corrections are made by one thread beforehand.
#include "kernels/optimizer.h"
#include "kernels/update_chunk.cuh"

namespace xp::kernels {
namespace {

// corrections: 1 / (1 - b1^t), 1 / sqrt(1 - b2^t).
__global__ void CountStep(const AdamArgs p, float* corrections) {
  if (p.common.factor != nullptr && *p.common.factor == 0) return;
  const float step = *p.step + 1;
  *p.step = step;
  corrections[0] = static_cast<float>(1 / (1 - pow(static_cast<double>(p.beta1), step)));
  corrections[1] = static_cast<float>(1 / sqrt(1 - pow(static_cast<double>(p.beta2), step)));
}

template <typename T>
__global__ void __launch_bounds__(kUpdateThreads)
    AdamKernel(const __grid_constant__ AdamArgs p, const UpdateChunk* chunks,
               const float* corrections) {
  const UpdateChunk chunk = chunks[blockIdx.x];
  const float factor = p.common.factor != nullptr ? *p.common.factor : 1.0f;
  if (factor == 0) return;
  const float lr = *p.common.lr * chunk.lr_multiplier;
  const float of_first = corrections[0], of_second = corrections[1];
  // Not as w * (1 - pull): that factor's rounding error is the same at every step and adds up.
  const float pull = p.decoupled ? lr * chunk.decay : 0.0f;
  const float l2 = p.decoupled ? 0.0f : chunk.decay;
  ForChunk(chunk, [&](auto vector, int64_t at) {
    constexpr int V = decltype(vector)::value;
    float g[V], w[V], m[V], v[V];
    ReadGradient<T>(p.common.gradients, chunk, at, g);
    ReadVector<V>(p.common.param + at, w);
    ReadVector<V>(p.first + at, m);
    ReadVector<V>(p.second + at, v);
    Unscale(g, factor, p.common.max_value);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      g[k] += l2 * w[k];
      m[k] = p.beta1 * m[k] + (1 - p.beta1) * g[k];
      v[k] = p.beta2 * v[k] + (1 - p.beta2) * g[k] * g[k];
      w[k] = (w[k] - pull * w[k]) - lr * (m[k] * of_first) / (sqrtf(v[k]) * of_second + p.eps);
    }
    WriteVector<V>(p.first + at, m);
    WriteVector<V>(p.second + at, v);
    WriteVector<V>(p.common.param + at, w);
    if (p.common.param_compute != nullptr) {
      WriteVector<V>(static_cast<T*>(p.common.param_compute) + at, w);
    }
  });
}

}  // namespace

void Adam(const AdamArgs& args, const UpdateChunk* chunks, int count, void* scratch,
          ElementType compute, cudaStream_t stream) {
  auto* corrections = static_cast<float*>(scratch);
  CountStep<<<1, 1, 0, stream>>>(args, corrections);
  if (count == 0) return;
  Dispatch(compute, [&](auto zero) {
    AdamKernel<decltype(zero)>
        <<<static_cast<unsigned>(count), kUpdateThreads, 0, stream>>>(args, chunks, corrections);
  });
}

}  // namespace xp::kernels
