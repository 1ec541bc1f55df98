// Anchors by number. An image's anchors are numbered level by level, then by row, column and anchor
// of the cell, as ops.h says; a cell's anchors are the level's base anchors moved by the strides.
#pragma once

#include "kernels/boxes.h"

namespace xp::kernels {

inline constexpr int kMaxLevels = 8;

// The levels as kernels take them, by value. `base` points to the base anchors of all levels, one
// level after the other, in memory that the reader can reach (host or device).
struct AnchorGrid {
  int levels = 0;
  int height[kMaxLevels] = {};
  int width[kMaxLevels] = {};
  int per_cell[kMaxLevels] = {};
  float stride_y[kMaxLevels] = {}, stride_x[kMaxLevels] = {};
  int base_begin[kMaxLevels] = {};  // in boxes
  int first[kMaxLevels + 1] = {};   // number of the level's first anchor; the last entry: all
  const Box* base = nullptr;

  XP_HOST_DEVICE int total() const { return first[levels]; }
  XP_HOST_DEVICE int count(int level) const { return first[level + 1] - first[level]; }
};

XP_HOST_DEVICE inline int LevelOf(const AnchorGrid& grid, int anchor) {
  int level = 0;
  while (level + 1 < grid.levels && anchor >= grid.first[level + 1]) ++level;
  return level;
}

// `index` counts within the level.
XP_HOST_DEVICE inline Box AnchorAt(const AnchorGrid& grid, int level, int index) {
  int per_cell = grid.per_cell[level];
  int cell = index / per_cell;
  int row = cell / grid.width[level];
  int column = cell - row * grid.width[level];
  Box b = grid.base[grid.base_begin[level] + (index - cell * per_cell)];
  float x = static_cast<float>(column) * grid.stride_x[level];
  float y = static_cast<float>(row) * grid.stride_y[level];
  return {b.x1 + x, b.y1 + y, b.x2 + x, b.y2 + y};
}

}  // namespace xp::kernels
