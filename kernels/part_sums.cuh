// The end of a sum that thread blocks have shared: what they left is added up in their order.
#pragma once

#include <cstdint>

namespace xp::kernels {

// 16 threads a quad take every 16th part, then one adds those up.
constexpr int kPartSumThreads = 256, kPartSumLanes = 16;
constexpr int kPartSumGroups = kPartSumThreads / kPartSumLanes;

// partial: [parts][quads]. Calls write(quad, which of its four, sum).
template <typename Write>
__global__ void __launch_bounds__(kPartSumThreads)
    PartSumsKernel(const float4* partial, int parts, int quads, Write write) {
  __shared__ float4 sums[kPartSumGroups][kPartSumLanes];
  const int lane = static_cast<int>(threadIdx.x) % kPartSumLanes;
  const int group = static_cast<int>(threadIdx.x) / kPartSumLanes;
  const int first = static_cast<int>(blockIdx.x) * kPartSumLanes;
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
  for (int part = group; part < parts; part += kPartSumGroups) {
    const float4 v = partial[static_cast<int64_t>(part) * quads + first + lane];
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  sums[group][lane] = sum;
  __syncthreads();
  if (threadIdx.x >= kPartSumLanes * 4) return;
  const int at = static_cast<int>(threadIdx.x) / 4, c = static_cast<int>(threadIdx.x) % 4;
  float all = 0;
#pragma unroll
  for (int k = 0; k < kPartSumGroups; ++k) all += reinterpret_cast<const float*>(&sums[k][at])[c];
  write(first + at, c, all);
}

// `quads` is a multiple of 16.
template <typename Write>
void AddParts(const float4* partial, int parts, int quads, const Write& write,
              cudaStream_t stream) {
  PartSumsKernel<<<static_cast<unsigned>(quads / kPartSumLanes), kPartSumThreads, 0, stream>>>(
      partial, parts, quads, write);
}

}  // namespace xp::kernels
