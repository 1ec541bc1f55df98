// A small detection data set drawn from random numbers: filled circles, squares and triangles over
// textured noise, in COCO's format. Something to train on where there is nothing to download.
#pragma once

#include <cstdint>
#include <filesystem>

#include "exp/data/image.h"

namespace xp::data {

struct ShapesOptions {
  int images = 64;  // train images, 1 .. 1,000,000
  int val = 16;     // validation images, 0 .. 1,000,000
  uint64_t seed = 0;
  int width = 320;  // pixels, 32 .. 8192
  int height = 240;
};

// Writes `images/*.jpg`, `instances_train.json` and `instances_val.json` (none when val is 0) into
// `dir`, which is made when it isn't there; files of the same names are replaced. Categories: 1
// circle, 2 square, 3 triangle. The same options give the same bytes on every machine. Throws
// UsageError for an option out of range, JobError when writing fails.
void DrawShapes(const std::filesystem::path& dir, const ShapesOptions& options);

}  // namespace xp::data
