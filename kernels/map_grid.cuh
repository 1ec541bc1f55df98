// One thread a vector of channels of a pixel: block x covers a stretch of one row, grid y the rows,
// grid z the images.
#pragma once

#include "kernels/map_shape.h"
#include "kernels/octet.cuh"

namespace xp::kernels {

inline constexpr int kMapThreads = 256;

inline dim3 MapGrid(const MapShape& s, int vector) {
  return dim3(CeilDiv(static_cast<int64_t>(s.w) * (s.c / vector), kMapThreads),
              static_cast<unsigned>(s.h), static_cast<unsigned>(s.n));
}

struct MapPlace {
  int n, y, x, c;  // c: the first channel of the vector
  bool inside;
};

template <int V>
__device__ inline MapPlace PlaceOf(const MapShape& s) {
  const int vectors = s.c / V, i = static_cast<int>(blockIdx.x * kMapThreads + threadIdx.x);
  const int x = i / vectors;
  return {static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y), x, (i - x * vectors) * V,
          x < s.w};
}

__device__ inline int64_t Offset(const MapShape& s, int n, int y, int x, int c) {
  return ((static_cast<int64_t>(n) * s.h + y) * s.w + x) * s.c + c;
}

}  // namespace xp::kernels
