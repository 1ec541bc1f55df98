// One image with its boxes on the way into a batch.
#pragma once

#include <string>
#include <vector>

#include "exp/data/coco.h"
#include "exp/data/image.h"
#include "exp/data/resize.h"

namespace xp::data {

struct SampleBox {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;  // pixels of `Sample::image`
  int label = 0;
};

struct Sample {
  RgbImage image;
  std::vector<SampleBox> boxes;   // to train on
  std::vector<SampleBox> ignore;  // crowds
};

// Folder and file name, where the folder may be empty and the name absolute.
std::string ImagePath(const std::string& prefix, const std::string& file_name);

// Fills in the boxes of an image of the data set: [x1, y1, x2, y2] clipped to `size`, without those
// that have no area there or a side under `min_side`.
void CollectBoxes(const CocoDataset& dataset, int image, Size size, double min_side,
                  Sample* sample);

// Decodes a file's content, turned as EXIF says unless it is the stored form that has `expected`'s
// size: the annotations were drawn on one of the two. Throws UsageError naming the file when it
// can't be decoded or is of another size than `expected` (0x0: any).
void DecodeImageOfSize(const std::string& file, const std::string& path, Size expected,
                       RgbImage* image);

// The size of an image as DecodeImageOfSize with {0, 0} would return it.
Size SizeOfImage(const std::string& file, const std::string& path);

}  // namespace xp::data
