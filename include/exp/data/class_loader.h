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
#include "exp/data/image_list.h"
#include "exp/data/loader.h"

namespace xp::data {

struct ClassBatch {
  int n = 0, height = 0, width = 0;
  std::vector<uint8_t> images;   // [n, height, width, 3] RGB
  std::vector<int32_t> labels;   // [n]
  std::vector<int32_t> indices;  // [n] into ImageList::files
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
  Policy image_policy = Policy::kStrict;  // as in LoaderOptions
  ReadImageFn read_file;                  // empty: files of the disk
  int rank = 0, world = 1;
};

class ClassLoader {
 public:
  ClassLoader(std::shared_ptr<const ImageList> list, const ClassLoaderOptions& options);
  ~ClassLoader();
  ClassLoader(const ClassLoader&) = delete;
  ClassLoader& operator=(const ClassLoader&) = delete;

  // The full batch, and where there is one the smaller last.
  const std::vector<Bucket>& Buckets() const;
  int64_t batches_per_epoch() const;
  const ImageList& list() const;
  const ClassLoaderOptions& options() const;

  // As Loader's.
  void StartEpoch(uint32_t epoch, int64_t start_batch = 0);
  // How many images a batch of the epoch that was started holds.
  int ImagesIn(int64_t batch) const;
  bool Next(ClassBatch* batch);
  std::vector<std::string> TakeWarnings();
  StageSeconds TakeStages();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace xp::data
