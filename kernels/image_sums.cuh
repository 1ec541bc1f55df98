// Sums over the pixels of each image and channel: a block has one tile of channels of one image, so
// there is nothing to add up afterwards. Block dim3(lanes, pixels at once), grid dim3(tiles,
// images).
#pragma once

#include <algorithm>

#include "kernels/column_sums.cuh"

namespace xp::kernels {

struct ImageSums {
  dim3 grid, block;
};

inline ImageSums PlanImageSums(int images, int pixels, int channels) {
  const int vector = channels % 8 == 0 ? 8 : 1, columns = channels / vector;
  const int lanes = std::min(columns, vector == 8 ? 8 : 32);
  // No more row lanes than pixels; a power of two.
  int row_lanes = kColumnThreads / 32;
  while (row_lanes > 1 && row_lanes / 2 >= pixels) row_lanes /= 2;
  return {dim3(CeilDiv(columns, lanes), static_cast<unsigned>(images)),
          dim3(static_cast<unsigned>(lanes),
               static_cast<unsigned>(std::min(row_lanes * (32 / lanes), kColumnThreads / lanes)))};
}

}  // namespace xp::kernels
