// Where RoIAlign samples: the level of a box and the bilinear weights along one axis. The weights
// of a sample are a product of one factor an axis, and so is the test whether it lies on the map,
// so both directions (forward and gradient) are written with one-dimensional weights. Source:
// torchvision 0.26, ops/poolers.py and csrc/ops/*/roi_align_kernel.*.
#pragma once

#include "kernels/boxes.h"

namespace xp::kernels {

struct RoiParams {
  int levels;
  float scale[8];
  int height[8], width[8];  // of the feature maps
  int output;               // bins a direction
  int sampling_ratio;       // <= 0: adaptive
  bool aligned;
  int canonical_level, canonical_size, min_level;
};

// A box on its level's map. Bin b spans start + b * bin .. start + (b + 1) * bin.
struct RoiGeometry {
  int level;
  float start_y, start_x;
  float bin_y, bin_x;
  int grid_y, grid_x;  // samples a bin
};

// floor(canonical_level + log2(sqrt(area) / canonical_size) + 1e-6), in float as torchvision has
// it, clamped to the levels there are; counted from 0. A box without area (or with NaN): level 0.
XP_HOST_DEVICE inline int RoiLevel(const Box& box, const RoiParams& params) {
  float area = Area(box);
  if (!(area > 0)) return 0;
  float ratio = sqrtf(area) / static_cast<float>(params.canonical_size);
  float level = floorf(static_cast<float>(params.canonical_level) + PortableLog2(ratio) + 1e-6f);
  float index = level - static_cast<float>(params.min_level);
  if (!(index > 0)) return 0;
  return index > static_cast<float>(params.levels - 1) ? params.levels - 1
                                                       : static_cast<int>(index);
}

XP_HOST_DEVICE inline int AdaptiveGrid(float size, int output) {
  float samples = ceilf(size / static_cast<float>(output));
  // Boxes are clipped to the image, so the bound only stops what no network should say.
  return samples >= 1 ? (samples < 4096 ? static_cast<int>(samples) : 4096) : 0;
}

XP_HOST_DEVICE inline RoiGeometry MakeRoiGeometry(const Box& box, const RoiParams& params) {
  RoiGeometry g;
  g.level = RoiLevel(box, params);
  float scale = params.scale[g.level];
  float offset = params.aligned ? 0.5f : 0.0f;
  g.start_x = box.x1 * scale - offset;
  g.start_y = box.y1 * scale - offset;
  float w = box.x2 * scale - offset - g.start_x;
  float h = box.y2 * scale - offset - g.start_y;
  // torchvision leaves negative sizes to the caller; here a box turned inside out has no size.
  float least = params.aligned ? 0.0f : 1.0f;
  w = w > least ? w : least;
  h = h > least ? h : least;
  g.bin_x = w / static_cast<float>(params.output);
  g.bin_y = h / static_cast<float>(params.output);
  g.grid_x = params.sampling_ratio > 0 ? params.sampling_ratio : AdaptiveGrid(w, params.output);
  g.grid_y = params.sampling_ratio > 0 ? params.sampling_ratio : AdaptiveGrid(h, params.output);
  return g;
}

// One sample along one axis: weight low_weight at pixel low and high_weight at low + 1 (which may
// lie beyond the map only with weight 0). Both weights are 0 when the sample is off the map.
struct AxisSample {
  int low;
  float low_weight, high_weight;
};

XP_HOST_DEVICE inline AxisSample SampleAxis(float start, float bin, int grid, int bin_index,
                                            int sample, int size) {
  float x = start + static_cast<float>(bin_index) * bin +
            (static_cast<float>(sample) + 0.5f) * bin / static_cast<float>(grid);
  if (!(x >= -1.0f && x <= static_cast<float>(size))) return {0, 0, 0};
  if (x < 0) x = 0;
  int low = static_cast<int>(x);
  if (low >= size - 1) return {size - 1, 1, 0};
  float high_weight = x - static_cast<float>(low);
  return {low, 1.0f - high_weight, high_weight};
}

}  // namespace xp::kernels
