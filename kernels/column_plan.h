// How a sum over the rows of a matrix [rows, channels] is split over thread blocks: the channels
// into tiles, the rows into parts. Part p of P takes the spans p, p + P, p + 2P, .. so that the
// whole grid sweeps the matrix from its start to its end (what comes next begins at the end, which
// is still in the L2 cache). The split depends on the shape, the type and the number of
// multiprocessors only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace xp::kernels {

inline constexpr int kColumnThreads = 512;

struct ColumnPlan {
  int64_t rows = 0;
  int channels = 0;
  int vector = 1;     // channels a thread: 8 (or 4), or 1 where eight doesn't divide the channels
  int lanes = 1;      // threads side by side in a row of a tile
  int row_lanes = 1;  // rows a block reads at once
  int unroll = 1;     // times which: the rows of a span
  int tiles = 1, parts = 1;

  int width() const { return lanes * vector; }  // channels a tile
  int64_t span() const { return static_cast<int64_t>(row_lanes) * unroll; }
  // For `sums` sums a channel.
  size_t PartialBytes(int sums) const {
    return static_cast<size_t>(tiles) * parts * width() * sums * sizeof(float);
  }
};

// `unroll`: rows a thread keeps in flight. `multiprocessors` of the device. `most_channels`:
// those of a thread where eight divides the channels; most_lanes: threads of a row then.
inline ColumnPlan PlanColumns(int64_t rows, int channels, int unroll, int multiprocessors,
                              int most_channels = 8, int most_lanes = 8) {
  ColumnPlan plan{.rows = rows, .channels = channels, .unroll = unroll};
  plan.vector = channels % 8 == 0 ? most_channels : 1;
  const int columns = channels / plan.vector;
  // Eight lanes of eight channels are a 128-byte line of bf16 (of four: one of fp32); fewer where
  // that divides evenly.
  const int most = plan.vector > 1 ? most_lanes : 32;
  plan.lanes = std::min(columns, most);
  for (int lanes = most; lanes > most / 2; --lanes) {
    if (columns % lanes == 0) {
      plan.lanes = lanes;
      break;
    }
  }
  plan.row_lanes = kColumnThreads / plan.lanes;
  plan.tiles = (columns + plan.lanes - 1) / plan.lanes;
  const int64_t spans = std::max<int64_t>(1, (rows + plan.span() - 1) / plan.span());
  const int64_t most_parts = std::max(1, 2 * multiprocessors / plan.tiles);
  const int64_t spans_a_part = (spans + most_parts - 1) / most_parts;
  plan.parts = static_cast<int>((spans + spans_a_part - 1) / spans_a_part);
  return plan;
}

}  // namespace xp::kernels
