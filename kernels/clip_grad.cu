// A block sums the squares of its chunk, in double: a finite gradient's square never overflows, so
// the sum is finite exactly if all gradients are. The last block adds the chunks' sums in their
// order.
#include "kernels/clip_grad.h"

#include "kernels/update_chunk.cuh"

namespace xp::kernels {
namespace {

template <typename T>
__global__ void __launch_bounds__(kUpdateThreads)
    ClipGradKernel(const ClipGradArgs p, const UpdateChunk* chunks, double* partial,
                   unsigned* counter) {
  const UpdateChunk chunk = chunks[blockIdx.x];
  double sum = 0;
  ForChunk(chunk, [&](auto vector, int64_t at) {
    constexpr int V = decltype(vector)::value;
    float g[V];
    ReadGradient<T>(p.gradients, chunk, at, g);
#pragma unroll
    for (int k = 0; k < V; ++k) sum += static_cast<double>(g[k]) * static_cast<double>(g[k]);
  });
  sum = BlockSum(sum);
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(counter, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  double total = 0;
#pragma unroll 8
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kUpdateThreads) total += partial[i];
  total = BlockSum(total);
  if (threadIdx.x != 0) return;
  *counter = 0;
  const double unscale =
      static_cast<double>(p.inverse_count) / (p.loss_scale != nullptr ? *p.loss_scale : 1.0f);
  const double norm = sqrt(total) * unscale;
  // As torch.nn.utils.clip_grad_norm_.
  const double clip = p.max_norm > 0 ? fmin(1.0, p.max_norm / (norm + 1e-6)) : 1.0;
  *p.factor = isfinite(total) ? static_cast<float>(unscale * clip) : 0.0f;
  *p.norm = static_cast<float>(norm);
}

__global__ void NothingToClip(const ClipGradArgs p) {
  *p.factor = p.inverse_count / (p.loss_scale != nullptr ? *p.loss_scale : 1.0f);
  *p.norm = 0;
}

}  // namespace

void ClipGrad(const ClipGradArgs& args, const UpdateChunk* chunks, int count, void* scratch,
              unsigned* counter, ElementType compute, cudaStream_t stream) {
  if (count == 0) {
    NothingToClip<<<1, 1, 0, stream>>>(args);
    return;
  }
  Dispatch(compute, [&](auto zero) {
    ClipGradKernel<decltype(zero)><<<static_cast<unsigned>(count), kUpdateThreads, 0, stream>>>(
        args, chunks, static_cast<double*>(scratch), counter);
  });
}

}  // namespace xp::kernels
