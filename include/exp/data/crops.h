// Cuts the boxes of a detection data set into images for a classifier.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "exp/data/coco.h"

namespace xp::data {

struct CropOptions {
  double margin = 0;  // added to each side, as a share of the box's; cut off at the image's edge
  int min_side = 2;   // boxes with a shorter side are left out, pixels
  int quality = 95;   // of the JPEGs, 1 .. 100
  int threads = 0;    // 0: all cores
};

struct CropReport {
  std::map<std::string, int64_t> cut;  // by class
  int64_t left_out = 0;                // too small, without area, crowds
};

// Writes out/<class>/<image's name>_<annotation id>.jpg for each box: ImageFolder's layout. The
// same input gives the same bytes. Class names that are no folder names are made so (`/` is `_`).
// Throws UsageError where an image can't be read, JobError where the disk refuses.
CropReport CutBoxes(const CocoDataset& dataset, const std::filesystem::path& images,
                    const std::filesystem::path& out, const CropOptions& options = {});

}  // namespace xp::data
