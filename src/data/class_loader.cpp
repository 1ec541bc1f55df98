#include "exp/data/class_loader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "exp/base/error.h"
#include "exp/base/philox.h"
#include "exp/data/image_io.h"
#include "src/data/augment.h"
#include "src/data/crop.h"
#include "src/data/feed.h"
#include "src/data/sample.h"

namespace xp::data {
namespace {

constexpr auto& Check = CheckLoaderOption;

void CheckOptions(const ClassLoaderOptions& o) {
  CheckFeedOptions(o);
  Check(o.size >= 1 && o.size <= 8192, "`crop_size` is out of range", "1 .. 8192");
  Check(o.resize >= o.size && o.resize <= 8192,
        "`resize` is smaller than `crop_size`, or over 8192", "crop_size .. 8192");
  Check(o.scale[0] > 0 && o.scale[0] <= o.scale[1] && o.scale[1] <= 1,
        "`crop_scale` is out of range", "[low, high] in 0 .. 1");
  Check(o.ratio[0] >= 0.05 && o.ratio[0] <= o.ratio[1] && o.ratio[1] <= 20,
        "`crop_ratio` is out of range", "[low, high] in .05 .. 20");
}

// All images are of one group and one shape.
LoaderOptions PlanOptions(const ClassLoaderOptions& o) {
  LoaderOptions plan;
  plan.samples_per_gpu = o.samples_per_gpu;
  plan.seed = o.seed;
  plan.scales = {{o.size, o.size}};
  plan.keep_ratio = false;
  plan.size_divisor = 1;
  plan.aspect_grouping = false;
  plan.shuffle = o.train;
  plan.last_batch = o.last_batch;
  plan.rank = o.rank;
  plan.world = o.world;
  return plan;
}

std::vector<int32_t> Indices(size_t n) {
  std::vector<int32_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::span<const uint8_t> BytesOf(const std::string& file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
}

}  // namespace

class ClassLoader::Impl : public EpochFeed {
 public:
  Impl(std::shared_ptr<const ImageList> list, const ClassLoaderOptions& options)
      : list_(std::move(list)), options_(options) {
    CheckOptions(options_);
    Check(!list_->files.empty(), "the data set has no images", "at least one");
    size_t n = list_->files.size();
    slots_.resize(static_cast<size_t>(options_.prefetch));
    Begin(std::make_unique<EpochPlanner>(PlanOptions(options_), Indices(n),
                                         std::vector<Size>(n, {1, 1})),
          {static_cast<int64_t>(n), options_.workers, options_.prefetch, options_.image_policy,
           options_.read_file});
  }
  ~Impl() override { End(); }

  std::shared_ptr<const ImageList> list_;
  ClassLoaderOptions options_;
  std::vector<ClassBatch> slots_;

 private:
  void Prepare(const PlannedBatch& planned, int slot) override;
  void Make(const PlannedBatch& planned, int slot, int item) override;
  const std::string& FileName(int image) const override {
    return list_->files[static_cast<size_t>(image)];
  }

  // Writes size x size pixels of an image of the list.
  void MakeOne(int index, uint8_t* out);
  void MakeTrain(const std::string& file, const std::string& path, int index, uint8_t* out);
  void MakeCentre(const std::string& file, const std::string& path, uint8_t* out);
};

void ClassLoader::Impl::Prepare(const PlannedBatch& planned, int slot) {
  ClassBatch& batch = slots_[static_cast<size_t>(slot)];
  size_t n = static_cast<size_t>(planned.count), size = static_cast<size_t>(options_.size);
  batch.n = planned.count;
  batch.height = batch.width = options_.size;
  batch.images.resize(n * size * size * 3);
  batch.labels.assign(n, 0);
  batch.indices.assign(n, 0);
  batch.left_out.assign(n, 0);
}

void ClassLoader::Impl::Make(const PlannedBatch& planned, int slot, int item) {
  ClassBatch& batch = slots_[static_cast<size_t>(slot)];
  int index = plan().order[static_cast<size_t>(planned.first + item)];
  const size_t bytes = static_cast<size_t>(options_.size) * options_.size * 3;
  uint8_t* out = &batch.images[static_cast<size_t>(item) * bytes];
  const int count = static_cast<int>(list_->files.size());
  if (!options_.leave_out) {
    index = FirstUsable(
        index, slot, item, [&](int after) { return (after + 1) % count; },
        [&](int which) { MakeOne(which, out); });
  } else if (!Usable(slot, item, [&] { MakeOne(index, out); })) {
    std::memset(out, 0, bytes);
    batch.left_out[static_cast<size_t>(item)] = 1;
  }
  batch.labels[static_cast<size_t>(item)] = list_->labels[static_cast<size_t>(index)];
  batch.indices[static_cast<size_t>(item)] = index;
}

void ClassLoader::Impl::MakeOne(int index, uint8_t* out) {
  std::string path = ImagePath(list_->root, FileName(index));
  std::string file = Read(path);
  if (options_.train) {
    MakeTrain(file, path, index, out);
  } else {
    MakeCentre(file, path, out);
  }
}

void ClassLoader::Impl::MakeTrain(const std::string& file, const std::string& path, int index,
                                  uint8_t* out) {
  thread_local RgbImage image;
  RandomStream stream(options_.seed, RandomPurpose::kAugment, epoch(),
                      static_cast<uint32_t>(index));
  ImageInfo info = ReadImageInfo(BytesOf(file), path);
  JpegRegion part = DrawResizedCrop(info.upright(), options_.scale, options_.ratio, &stream);
  Mirror mirror{stream.NextDouble() < options_.flip_ratio, false};
  const int size = options_.size;
  const size_t stride = static_cast<size_t>(size) * 3;
  if (options_.fast_decode && info.format == ImageFormat::kJpeg && info.orientation == 1) {
    DecodedRegion at;
    Timed([&] { at = DecodeJpegRegion(BytesOf(file), path, part, size, size, &image); });
    double share = at.scale / 8.0, w = image.width, h = image.height;
    ResizeBox box{std::clamp(part.x * share - at.x, 0.0, w),
                  std::clamp(part.y * share - at.y, 0.0, h),
                  std::clamp((part.x + part.width) * share - at.x, 0.0, w),
                  std::clamp((part.y + part.height) * share - at.y, 0.0, h)};
    ResizeAntialias(image.pixels.data(), image.width, image.height,
                    static_cast<size_t>(image.width) * 3, box, out, size, size, stride, mirror);
  } else {
    Timed([&] { DecodeImage(BytesOf(file), path, true, &image); });
    ResizeBox box{0, 0, static_cast<double>(part.width), static_cast<double>(part.height)};
    ResizeAntialias(image.Row(part.y) + 3 * static_cast<size_t>(part.x), part.width, part.height,
                    static_cast<size_t>(image.width) * 3, box, out, size, size, stride, mirror);
  }
  if (options_.photometric.probability > 0) {
    image.Reset(size, size);
    std::memcpy(image.pixels.data(), out, image.pixels.size());
    ApplyPhotometric(options_.photometric, &stream, &image);
    std::memcpy(out, image.pixels.data(), image.pixels.size());
  }
}

void ClassLoader::Impl::MakeCentre(const std::string& file, const std::string& path, uint8_t* out) {
  thread_local RgbImage image;
  Timed([&] { DecodeImage(BytesOf(file), path, true, &image); });
  const int size = options_.size;
  ResizeAntialias(image.pixels.data(), image.width, image.height,
                  static_cast<size_t>(image.width) * 3,
                  {0, 0, static_cast<double>(image.width), static_cast<double>(image.height)},
                  CentreOfResized({image.width, image.height}, options_.resize, size), out, size,
                  size, static_cast<size_t>(size) * 3);
}

ClassLoader::ClassLoader(std::shared_ptr<const ImageList> list, const ClassLoaderOptions& options)
    : EpochLoader(std::make_unique<Impl>(std::move(list), options)) {}

ClassLoader::Impl& ClassLoader::impl() const { return static_cast<Impl&>(feed()); }
const ImageList& ClassLoader::list() const { return *impl().list_; }
const ClassLoaderOptions& ClassLoader::options() const { return impl().options_; }
bool ClassLoader::Next(ClassBatch* batch) { return impl().Next(&impl().slots_, batch); }

}  // namespace xp::data
