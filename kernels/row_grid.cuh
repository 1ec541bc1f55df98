// Blocks for one-shot passes over [rows, channels]: a thread has a vector of channels of a few
// rows.
#pragma once

#include "kernels/octet.cuh"

namespace xp::kernels {

inline constexpr int kApplyThreads = 256;

// block: dim3(vectors of a row, rows), grid: dim3(blocks of rows, tiles of channels).
struct RowGrid {
  dim3 grid, block;
};
inline RowGrid PlanRows(int64_t rows, int vectors, int rows_a_thread) {
  const int lanes = vectors < kApplyThreads ? vectors : kApplyThreads;
  const int row_lanes = kApplyThreads / lanes;
  return {
      dim3(CeilDiv(rows, static_cast<int64_t>(row_lanes) * rows_a_thread), CeilDiv(vectors, lanes)),
      dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(row_lanes))};
}

}  // namespace xp::kernels
