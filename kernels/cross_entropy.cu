// A block has a row; the last one to finish adds up the rows' losses, in order. With p = softmax
// and t = (1 - smoothing) * onehot + smoothing / classes: loss = -sum t log p, dlogits = (p - t) *
// loss_scale / counted. Rows whose label isn't in 0 .. classes - 1 don't count.
#include "kernels/cross_entropy.h"

#include "kernels/octet.cuh"

namespace xp::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

struct MaxOf {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct SumOf {
  template <typename N>
  __device__ N operator()(N a, N b) const {
    return a + b;
  }
};

// Of all threads of the block, in a fixed order; the same in each.
template <typename F, typename N>
__device__ N BlockReduce(N v, F f) {
  __shared__ N warps[kWarps];
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) v = f(v, __shfl_xor_sync(0xffffffffu, v, lane));
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  v = warps[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) v = f(v, warps[w]);
  return v;
}

// Labels that are classes, counted by the whole block.
__device__ int CountValid(const int32_t* labels, int rows, int classes) {
  int count = 0;
  for (int r = static_cast<int>(threadIdx.x); r < rows; r += kThreads) {
    count += labels[r] >= 0 && labels[r] < classes ? 1 : 0;
  }
  return BlockReduce(count, SumOf{});
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    CrossEntropyKernel(const CrossEntropyArgs p, int rows, int classes, float* losses,
                       int32_t* hits, unsigned* counter) {
  const int row = static_cast<int>(blockIdx.x);
  const T* logits = static_cast<const T*>(p.logits) + static_cast<int64_t>(row) * classes;
  const int label = p.labels[row];
  const bool valid = label >= 0 && label < classes;
  const float own = valid ? ToFloat(logits[label]) : 0.0f;
  const float counted = fmaxf(static_cast<float>(CountValid(p.labels, rows, classes)), 1.0f);

  float most = -INFINITY, total = 0;
  int better = 0;  // logits that rank before the label's
  for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads) {
    const float v = ToFloat(logits[c]);
    most = fmaxf(most, v);
    total += v;
    better += v > own || (v == own && c < label) ? 1 : 0;
  }
  most = BlockReduce(most, MaxOf{});
  total = BlockReduce(total, SumOf{});
  better = BlockReduce(better, SumOf{});
  float sum = 0;
  for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads) {
    sum += expf(ToFloat(logits[c]) - most);
  }
  sum = BlockReduce(sum, SumOf{});
  const float log_sum = most + logf(sum);
  const float even = p.smoothing / static_cast<float>(classes);
  if (threadIdx.x == 0) {
    // -sum t log p = log_sum - (1 - smoothing) * own - smoothing * mean of the logits. Without
    // smoothing the other classes don't matter, even where a logit is -infinity.
    float loss = (1 - p.smoothing) * (log_sum - own);
    if (p.smoothing > 0) loss += p.smoothing * (log_sum - total / static_cast<float>(classes));
    losses[row] = valid ? loss : 0.0f;
    hits[row] = !valid || own != own ? 0 : better == 0 ? 3 : better < 5 ? 2 : 0;
  }
  if (p.dlogits != nullptr) {
    const float factor = valid ? (p.loss_scale ? *p.loss_scale : 1.0f) / counted : 0.0f;
    T* to = static_cast<T*>(p.dlogits) + static_cast<int64_t>(row) * classes;
    for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads) {
      const float target = even + (c == label ? 1 - p.smoothing : 0.0f);
      const float d = (expf(ToFloat(logits[c]) - log_sum) - target) * factor;
      to[c] = FromFloat<T>(valid ? d : 0.0f);
    }
  }

  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(counter, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  float loss = 0;
  int first = 0, five = 0;
  for (int r = static_cast<int>(threadIdx.x); r < rows; r += kThreads) {
    loss += losses[r];
    first += hits[r] & 1;
    five += hits[r] >> 1;
  }
  loss = BlockReduce(loss, SumOf{});
  first = BlockReduce(first, SumOf{});
  five = BlockReduce(five, SumOf{});
  if (threadIdx.x != 0) return;
  *counter = 0;
  *p.loss = loss / counted;
  if (p.correct != nullptr) {
    p.correct[0] = first;
    p.correct[1] = five;
  }
}

}  // namespace

void SoftmaxCrossEntropy(const CrossEntropyArgs& args, int rows, int classes, void* scratch,
                         unsigned* counter, ElementType type, cudaStream_t stream) {
  if (rows == 0) return;
  auto* losses = static_cast<float*>(scratch);
  Dispatch(type, [&](auto zero) {
    CrossEntropyKernel<decltype(zero)><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
        args, rows, classes, losses, reinterpret_cast<int32_t*>(losses + rows), counter);
  });
}

}  // namespace xp::kernels
