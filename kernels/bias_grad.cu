#include <algorithm>

#include "kernels/bias_grad.h"
#include "kernels/elements.cuh"

namespace xp::kernels {
namespace {

constexpr int kLanes = 32;      // channels a block handles, one a lane
constexpr int kRowsAtOnce = 8;  // rows a block reads at a time
constexpr int kRowsAPart = 512;
constexpr int64_t kMaxParts = 512;

int64_t Parts(int64_t rows) {
  return std::clamp<int64_t>((rows + kRowsAPart - 1) / kRowsAPart, 1, kMaxParts);
}

// Block (x, y): 32 channels, one part of the rows.
template <typename T>
__global__ void SumPart(const T* dy, float* partial, int64_t rows, int64_t channels,
                        int64_t rows_a_part) {
  __shared__ float sums[kRowsAtOnce][kLanes];
  int64_t channel = static_cast<int64_t>(blockIdx.x) * kLanes + threadIdx.x;
  int64_t begin = static_cast<int64_t>(blockIdx.y) * rows_a_part;
  int64_t end = min(begin + rows_a_part, rows);
  float sum = 0;
  if (channel < channels) {
    for (int64_t row = begin + threadIdx.y; row < end; row += kRowsAtOnce) {
      sum += ToFloat(dy[row * channels + channel]);
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || channel >= channels) return;
  for (int i = 1; i < kRowsAtOnce; ++i) sum += sums[i][threadIdx.x];
  partial[blockIdx.y * channels + channel] = sum;
}

__global__ void AddParts(const float* partial, float* db, int64_t parts, int64_t channels) {
  int64_t channel = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (channel >= channels) return;
  float sum = 0;
  for (int64_t i = 0; i < parts; ++i) sum += partial[i * channels + channel];
  db[channel] = sum;
}

}  // namespace

size_t BiasGradScratch(int64_t rows, int64_t channels) {
  return static_cast<size_t>(Parts(rows) * channels) * sizeof(float);
}

void BiasGrad(const void* dy, float* db, void* scratch, int64_t rows, int64_t channels,
              ElementType type, cudaStream_t stream) {
  auto* partial = static_cast<float*>(scratch);
  int64_t parts = Parts(rows);
  int64_t rows_a_part = (rows + parts - 1) / parts;
  dim3 grid(static_cast<unsigned>((channels + kLanes - 1) / kLanes), static_cast<unsigned>(parts));
  Dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    SumPart<T><<<grid, dim3(kLanes, kRowsAtOnce), 0, stream>>>(static_cast<const T*>(dy), partial,
                                                               rows, channels, rows_a_part);
  });
  constexpr int kThreads = 128;
  AddParts<<<static_cast<unsigned>((channels + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      partial, db, parts, channels);
}

}  // namespace xp::kernels
