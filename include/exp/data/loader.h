// Batches of a detection data set: decoded, augmented and padded by worker threads ahead of need.
//
// What batch k of epoch e holds is a pure function of (data set, options, e, k): the number of
// workers and the point at which an epoch was entered change nothing (design.md, "Bitwise by
// default").
//
// Training graphs are compiled for fixed shapes, so batches come in few of them. Images are grouped
// by aspect (landscape, portrait) and, with multi-scale, each batch draws one scale; a group's
// padded shape is the largest of its resized images, rounded up to `size_divisor`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exp/data/augment.h"
#include "exp/data/coco.h"
#include "exp/data/epoch_loader.h"
#include "exp/data/resize.h"

namespace xp::data {

struct Batch {
  int n = 0, height = 0, width = 0;  // the padded shape, one of Loader::Buckets()
  std::vector<uint8_t> images;  // [n, height, width, 3] RGB, zero right of and below each image
  std::vector<int32_t> image_sizes;     // [n, 2] height, width after the resize, without padding
  std::vector<float> scale_factors;     // [n, 2] x, y: resized size / size before the resize
  std::vector<int32_t> original_sizes;  // [n, 2] height, width
  std::vector<int64_t> image_ids;       // [n]
  std::vector<int32_t> image_indices;   // [n] into CocoDataset::images
  std::vector<uint8_t> flips;           // [n] bit 0: mirrored horizontally, bit 1: vertically
  std::vector<uint8_t> left_out;        // [n] 1: nothing but black, the image couldn't be used

  int max_boxes = 0;  // capacity, the same for every batch of a loader
  std::vector<float>
      boxes;  // [n, max_boxes, 4] x1 y1 x2 y2, pixels of the padded image; zeros after the count
  std::vector<int32_t> labels;      // [n, max_boxes] 0-based class; -1 after the count
  std::vector<int32_t> box_counts;  // [n]

  int max_ignore = 0;                  // capacity for crowds; 0 when the data set has none
  std::vector<float> ignore_boxes;     // [n, max_ignore, 4]
  std::vector<int32_t> ignore_counts;  // [n]
};

enum class MultiscaleMode {
  kValue,  // a batch draws one of the scales
  kRange,  // a batch draws a shorter side between the two scales' (in `range_steps` steps)
};

struct LoaderOptions {
  std::string img_prefix;   // folder that file names are relative to
  int samples_per_gpu = 2;  // n
  int workers = 2;          // threads, >= 1
  int prefetch = 3;         // batches held ready or in work, >= 1
  uint64_t seed = 0;

  std::vector<ImageScale> scales = {{1333, 800}};
  MultiscaleMode multiscale = MultiscaleMode::kValue;
  int range_steps = 4;
  bool keep_ratio = true;  // false: exactly the scale's width and height (SSD)
  SizeRounding rounding = SizeRounding::kFloor;
  int size_divisor = 32;

  double flip_ratio = 0;           // probability of a horizontal mirror
  double vertical_flip_ratio = 0;  // and of a vertical one
  // Those that change an image's shape make it fit into its group's padded shape afterwards.
  AugmentOptions augment;

  bool shuffle = true;
  bool aspect_grouping = true;
  LastBatch last_batch = LastBatch::kSmaller;
  bool filter_empty_gt = false;  // leave out images without a box to train on
  int min_image_side = 0;        // leave out smaller images (mmdetection: 32)
  double min_box_side =
      0;  // leave out boxes with a side under this, original pixels (mmdetection: 1)

  // An image that can't be decoded or isn't of the size that the JSON says: kStrict throws from
  // Next(); kDrop takes the next image of its group instead and adds a warning; kIgnore the same
  // without one.
  Policy image_policy = Policy::kStrict;
  // Under kDrop and kIgnore no other image takes its place, which would be seen twice then: its
  // place in the batch stays empty (Batch::left_out). For evaluation.
  bool leave_out = false;

  ReadImageFn read_file;  // empty: files of the disk

  // Data parallelism: of each `world` consecutive batches this loader returns number `rank`. The
  // batches left over at the end are not used.
  int rank = 0, world = 1;
};

class Loader : public EpochLoader {
 public:
  // Throws UsageError when no image is left, or an option is out of range.
  Loader(std::shared_ptr<const CocoDataset> dataset, LoaderOptions options);

  int max_boxes() const;
  int max_ignore() const;
  const CocoDataset& dataset() const;
  const LoaderOptions& options() const;

  // Moves the epoch's next batch into `batch` and reuses the memory that it held; false at its end.
  // Rethrows here, in order, what went wrong in a worker, as UsageError that names the image.
  bool Next(Batch* batch);

 private:
  class Impl;
  Impl& impl() const;
};

}  // namespace xp::data
