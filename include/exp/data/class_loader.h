// Batches of a classification data set, made ahead of need by worker threads. What batch k of epoch
// e holds is a pure function of (list, options, e, k), as in loader.h.
//
// Training takes a random part of each image, resized to size x size (torchvision's
// RandomResizedCrop); other passes resize the shorter side to `resize` and take the centre. Both
// resize with an antialiased triangle filter as Pillow does. With `fast_decode`, JPEGs of training
// images are decoded only where the part is, and scaled down in the DCT where the part is at least
// twice the size: close to, but not the same as, decoding the whole.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exp/data/augment.h"
#include "exp/data/coco.h"
#include "exp/data/epoch_loader.h"
#include "exp/data/image_list.h"

namespace xp::data {

struct ClassBatch {
  int n = 0, height = 0, width = 0;
  std::vector<uint8_t> images;    // [n, height, width, 3] RGB
  std::vector<int32_t> labels;    // [n]
  std::vector<int32_t> indices;   // [n] into ImageList::files
  std::vector<uint8_t> left_out;  // [n] 1: nothing but black, the image couldn't be used
};

struct ClassLoaderOptions {
  int samples_per_gpu = 32;
  int workers = 2;
  int prefetch = 3;
  uint64_t seed = 0;

  bool train = true;  // random parts and mirrors, shuffled; else centres, in order
  int size = 224;     // pixels of the square that comes out
  int resize = 256;   // shorter side before the centre is taken; >= size
  std::array<double, 2> scale = {0.08, 1};           // share of the area
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};  // width / height
  double flip_ratio = 0.5;
  Photometric photometric;
  bool fast_decode = true;

  LastBatch last_batch = LastBatch::kSmaller;
  Policy image_policy = Policy::kStrict;  // as in LoaderOptions, and the next
  bool leave_out = false;
  ReadImageFn read_file;  // empty: files of the disk
  int rank = 0, world = 1;
};

// Its largest batch shape is the full batch's; where there is one the smaller last comes second.
class ClassLoader : public EpochLoader {
 public:
  ClassLoader(std::shared_ptr<const ImageList> list, const ClassLoaderOptions& options);

  const ImageList& list() const;
  const ClassLoaderOptions& options() const;

  // As Loader's.
  bool Next(ClassBatch* batch);

 private:
  class Impl;
  Impl& impl() const;
};

}  // namespace xp::data
