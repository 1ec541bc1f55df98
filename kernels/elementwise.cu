// A block covers a fixed run of kOctets * kThreads octets and ends (a one-shot grid): each thread
// has kOctets loads an input in flight. The elements that are left over when n isn't a multiple of
// eight are done one by one by the first threads of the last block.
#include "kernels/elementwise.h"

#include "kernels/octet.cuh"

namespace xp::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kOctets = 2;

// What each kernel computes of an element's inputs.
struct ReluOf {
  __device__ float operator()(float x) const { return x < 0 ? 0.0f : x; }  // NaN stays
};
struct SigmoidOf {
  // exp of a negative number only, so that it never overflows.
  __device__ float operator()(float x) const {
    const float e = expf(-fabsf(x));
    const float s = 1.0f / (1.0f + e);
    return x < 0 ? e * s : s;
  }
};
struct Same {
  __device__ float operator()(float x) const { return x; }
};
struct ReluGradOf {
  __device__ float operator()(float dy, float y) const { return y > 0 ? dy : 0.0f; }
};
struct SigmoidGradOf {
  __device__ float operator()(float dy, float y) const { return dy * (y * (1.0f - y)); }
};

__device__ int64_t FirstOctet() {
  return static_cast<int64_t>(blockIdx.x) * (kThreads * kOctets) + threadIdx.x;
}

// Index of the left-over element that this thread does, or -1.
__device__ int64_t LeftOver(int64_t n) {
  const int64_t at = n / 8 * 8 + threadIdx.x;
  return blockIdx.x == gridDim.x - 1 && at < n ? at : -1;
}

template <typename F, typename In, typename Out>
__global__ void __launch_bounds__(kThreads) UnaryKernel(const In* x, Out* y, int64_t n) {
  const F f;
  const int64_t octets = n / 8, first = FirstOctet();
  Octet<In> in[kOctets];
#pragma unroll
  for (int u = 0; u < kOctets; ++u) {
    const int64_t i = first + u * kThreads;
    if (i < octets) in[u] = LoadOctet(x + i * 8);
  }
#pragma unroll
  for (int u = 0; u < kOctets; ++u) {
    const int64_t i = first + u * kThreads;
    if (i >= octets) continue;
    float v[8];
    Unpack(in[u], v);
#pragma unroll
    for (float& e : v) e = f(e);
    StoreOctet(y + i * 8, v);
  }
  if (const int64_t i = LeftOver(n); i >= 0) y[i] = FromFloat<Out>(f(ToFloat(x[i])));
}

template <typename F, typename T>
__global__ void __launch_bounds__(kThreads) BinaryKernel(const T* a, const T* b, T* y, int64_t n) {
  const F f;
  const int64_t octets = n / 8, first = FirstOctet();
  Octet<T> in[kOctets][2];
#pragma unroll
  for (int u = 0; u < kOctets; ++u) {
    const int64_t i = first + u * kThreads;
    if (i >= octets) continue;
    in[u][0] = LoadOctet(a + i * 8);
    in[u][1] = LoadOctet(b + i * 8);
  }
#pragma unroll
  for (int u = 0; u < kOctets; ++u) {
    const int64_t i = first + u * kThreads;
    if (i >= octets) continue;
    float va[8], vb[8];
    Unpack(in[u][0], va);
    Unpack(in[u][1], vb);
#pragma unroll
    for (int k = 0; k < 8; ++k) va[k] = f(va[k], vb[k]);
    StoreOctet(y + i * 8, va);
  }
  if (const int64_t i = LeftOver(n); i >= 0) y[i] = FromFloat<T>(f(ToFloat(a[i]), ToFloat(b[i])));
}

template <typename T>
struct AddInputs {
  const T* x[kMaxAddInputs];
};

// kCount 0: `count` inputs, known only when running.
template <int kCount, typename T>
__global__ void __launch_bounds__(kThreads)
    AddKernel(const __grid_constant__ AddInputs<T> in, int count, T* y, int64_t n, bool relu) {
  const int inputs = kCount > 0 ? kCount : count;
  const int64_t octets = n / 8, first = FirstOctet();
  float sum[kOctets][8];
#pragma unroll
  for (int k = 0; k < inputs; ++k) {
    Octet<T> o[kOctets];
#pragma unroll
    for (int u = 0; u < kOctets; ++u) {
      const int64_t i = first + u * kThreads;
      if (i < octets) o[u] = LoadOctet(in.x[k] + i * 8);
    }
#pragma unroll
    for (int u = 0; u < kOctets; ++u) {
      float v[8];
      Unpack(o[u], v);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum[u][e] = k == 0 ? v[e] : sum[u][e] + v[e];
    }
  }
#pragma unroll
  for (int u = 0; u < kOctets; ++u) {
    const int64_t i = first + u * kThreads;
    if (i >= octets) continue;
    if (relu) {
#pragma unroll
      for (float& e : sum[u]) e = e < 0 ? 0.0f : e;
    }
    StoreOctet(y + i * 8, sum[u]);
  }
  if (const int64_t i = LeftOver(n); i >= 0) {
    float sum = ToFloat(in.x[0][i]);
    for (int k = 1; k < inputs; ++k) sum += ToFloat(in.x[k][i]);
    y[i] = FromFloat<T>(relu && sum < 0 ? 0.0f : sum);
  }
}

unsigned Blocks(int64_t n) { return n < 8 ? 1 : CeilDiv(n / 8, kThreads * kOctets); }

template <typename F>
void Unary(const void* x, void* y, int64_t n, ElementType type, cudaStream_t stream) {
  if (n == 0) return;
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    UnaryKernel<F>
        <<<Blocks(n), kThreads, 0, stream>>>(static_cast<const T*>(x), static_cast<T*>(y), n);
  });
}

template <typename F>
void Binary(const void* a, const void* b, void* y, int64_t n, ElementType type,
            cudaStream_t stream) {
  if (n == 0) return;
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    BinaryKernel<F><<<Blocks(n), kThreads, 0, stream>>>(
        static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y), n);
  });
}

}  // namespace

void Add(const void* const* x, int count, void* y, int64_t n, bool relu, ElementType type,
         cudaStream_t stream) {
  if (n == 0) return;
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    AddInputs<T> in{};
    for (int k = 0; k < count; ++k) in.x[k] = static_cast<const T*>(x[k]);
    auto* out = static_cast<T*>(y);
    const unsigned blocks = Blocks(n);
    if (count == 2) {
      AddKernel<2><<<blocks, kThreads, 0, stream>>>(in, count, out, n, relu);
    } else if (count == 3) {
      AddKernel<3><<<blocks, kThreads, 0, stream>>>(in, count, out, n, relu);
    } else {
      AddKernel<0><<<blocks, kThreads, 0, stream>>>(in, count, out, n, relu);
    }
  });
}

void Relu(const void* x, void* y, int64_t n, ElementType type, cudaStream_t stream) {
  Unary<ReluOf>(x, y, n, type, stream);
}
void ReluGrad(const void* dy, const void* y, void* dx, int64_t n, ElementType type,
              cudaStream_t stream) {
  Binary<ReluGradOf>(dy, y, dx, n, type, stream);
}
void Sigmoid(const void* x, void* y, int64_t n, ElementType type, cudaStream_t stream) {
  Unary<SigmoidOf>(x, y, n, type, stream);
}
void SigmoidGrad(const void* dy, const void* y, void* dx, int64_t n, ElementType type,
                 cudaStream_t stream) {
  Binary<SigmoidGradOf>(dy, y, dx, n, type, stream);
}

void Cast(const void* x, ElementType from, void* y, ElementType to, int64_t n,
          cudaStream_t stream) {
  if (n == 0) return;
  Dispatch(from, [&](auto in) {
    Dispatch(to, [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      UnaryKernel<Same>
          <<<Blocks(n), kThreads, 0, stream>>>(static_cast<const In*>(x), static_cast<Out*>(y), n);
    });
  });
}

}  // namespace xp::kernels
