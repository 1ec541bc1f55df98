#include "exp/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "exp/base/error.h"
#include "exp/base/philox.h"
#include "exp/data/image_io.h"
#include "src/data/augment.h"
#include "src/data/feed.h"
#include "src/data/sample.h"

namespace xp::data {
namespace {

constexpr auto& Check = CheckLoaderOption;

void CheckOptions(const LoaderOptions& o) {
  CheckFeedOptions(o);
  Check(!o.scales.empty(), "there is no `img_scale`", "at least one");
  for (ImageScale s : o.scales) {
    Check(s.width >= 1 && s.height >= 1 && s.width <= 65535 && s.height <= 65535,
          "`img_scale` is out of range", "sides of 1 .. 65535 pixels");
  }
  Check(o.multiscale == MultiscaleMode::kValue || o.scales.size() <= 2,
        "`multiscale_mode` range with more than two scales", "two scales, the ends of the range");
  Check(o.range_steps >= 1 && o.range_steps <= 64, "`range_steps` is out of range", "1 .. 64");
  Check(o.size_divisor >= 1 && o.size_divisor <= 4096, "`size_divisor` is out of range",
        "1 .. 4096");
  Check(o.vertical_flip_ratio >= 0 && o.vertical_flip_ratio <= 1,
        "`vertical_flip_ratio` is out of range", "0 .. 1");
}

}  // namespace

class Loader::Impl : public EpochFeed {
 public:
  Impl(std::shared_ptr<const CocoDataset> dataset, LoaderOptions options)
      : dataset_(std::move(dataset)), options_(std::move(options)) {
    CheckOptions(options_);
    Select();
    slots_.resize(static_cast<size_t>(options_.prefetch));
    Begin(std::make_unique<EpochPlanner>(options_, images_, sizes_),
          {static_cast<int64_t>(images_.size()), options_.workers, options_.prefetch,
           options_.image_policy, options_.read_file});
  }

  ~Impl() override { End(); }

  std::shared_ptr<const CocoDataset> dataset_;
  LoaderOptions options_;
  std::vector<int32_t> images_;  // that are drawn from
  std::vector<Size> sizes_;      // original, by image index
  int max_boxes_ = 1, max_ignore_ = 0;
  std::vector<Batch> slots_;

 private:
  void Prepare(const PlannedBatch& planned, int slot) override;
  void Make(const PlannedBatch& planned, int slot, int item) override;
  const std::string& FileName(int image) const override {
    return dataset_->images[static_cast<size_t>(image)].file_name;
  }

  void Select();
  // `small`: images that are smaller than min_image_side.
  [[noreturn]] void NoneLeft(size_t small) const;
  // Names the images that an option left out.
  void TellLeftOut(const std::vector<int>& images, const char* what);
  // The size of an image that the annotation file gives none for; false where the policy leaves it
  // out.
  bool ReadSize(const CocoImage& image, Size* size);
  // Reads an image and its boxes.
  void ReadImage(int image, Sample* sample);
  // The same; under kDrop and kIgnore of the next of `pool` that decodes. Returns which.
  int ReadSample(int image, const std::vector<int32_t>& pool, int slot, int item, Sample* sample);
  // The size of an augmented image in its batch.
  Size Fit(Size image, const PlannedBatch& planned, ImageScale scale) const;
  ImageScale DrawScale(const PlannedBatch& planned, RandomStream* stream) const;
  void Place(const Sample& sample, int image, Size resized, Mirror mirror, int item,
             Batch* batch) const;
  // In the place of an image that can't be used.
  void PlaceNothing(int image, int item, Batch* batch) const;
};

void Loader::Impl::Select() {
  const CocoDataset& d = *dataset_;
  sizes_.resize(d.images.size());
  Sample sample;
  std::vector<int> small, empty;
  for (int i = 0; i < static_cast<int>(d.images.size()); ++i) {
    const CocoImage& image = d.images[static_cast<size_t>(i)];
    Size& size = sizes_[static_cast<size_t>(i)];
    size = {image.width, image.height};
    if (size.width == 0 && !ReadSize(image, &size)) continue;
    if (std::min(size.width, size.height) < options_.min_image_side) {
      small.push_back(i);
      continue;
    }
    CollectBoxes(d, i, size, options_.min_box_side, &sample);
    if (options_.filter_empty_gt && sample.boxes.empty()) {
      empty.push_back(i);
      continue;
    }
    max_boxes_ = std::max(max_boxes_, static_cast<int>(sample.boxes.size()));
    max_ignore_ = std::max(max_ignore_, static_cast<int>(sample.ignore.size()));
    images_.push_back(i);
  }
  TellLeftOut(small, "smaller than min_size");
  TellLeftOut(empty, "without a box to train on, as filter_empty_gt asks");
  max_boxes_ *= options_.augment.images_per_sample();
  max_ignore_ *= options_.augment.images_per_sample();
  if (images_.empty()) NoneLeft(small.size());
}

void Loader::Impl::NoneLeft(size_t small) const {
  const CocoDataset& d = *dataset_;
  std::string what = "no image is left to load", next;
  auto dropped = std::find_if(d.problems.begin(), d.problems.end(),
                              [](const Problem& problem) { return problem.dropped; });
  if (d.images.empty() && d.problems.empty()) {
    what += ": the file lists none";
    next = "check `ann_file`: its `images` are empty";
  } else if (small > 0 && small == d.images.size()) {
    what += fmt::format(": all {} are smaller than `min_size`", small);
    next = "lower `min_size`";
  } else if (dropped != d.problems.end()) {
    what += fmt::format(": {} records are left out, the first at {}: {}",
                        std::count_if(dropped, d.problems.end(),
                                      [](const Problem& problem) { return problem.dropped; }),
                        dropped->where, dropped->message);
    next = "`exp data check` lists them all";
  } else if (d.annotations.empty()) {
    what += ": there is no annotation";
  } else if (std::all_of(d.annotations.begin(), d.annotations.end(),
                         [](const CocoAnnotation& a) { return a.crowd; })) {
    what +=
        fmt::format(": all {} boxes are crowds, which are never trained on", d.annotations.size());
  }
  if (next.empty() && options_.filter_empty_gt)
    next = "check `classes`, or set `filter_empty_gt: false`";
  throw UsageError(
      {.what = what,
       .where = d.path,
       .expected = options_.filter_empty_gt ? "images with boxes of the chosen classes" : "images",
       .next = next});
}

void Loader::Impl::TellLeftOut(const std::vector<int>& images, const char* what) {
  if (images.empty() || options_.image_policy == Policy::kIgnore) return;
  std::string names;
  std::unordered_set<int64_t> told;  // `times` has each image several times
  for (int i : images) {
    const CocoImage& image = dataset_->images[static_cast<size_t>(i)];
    if (told.insert(image.id).second) names += (names.empty() ? "" : ", ") + image.file_name;
  }
  Tell(fmt::format("{}: {} of {} images are left out, {}: {}", dataset_->path, told.size(),
                   dataset_->image_index.size(), what, names));
}

void Loader::Impl::Prepare(const PlannedBatch& planned, int slot) {
  Batch& batch = slots_[static_cast<size_t>(slot)];
  Size padded = planner().padded(planned.group, planned.scale);
  size_t n = static_cast<size_t>(planned.count);
  batch.n = planned.count;
  batch.height = padded.height;
  batch.width = padded.width;
  batch.images.resize(n * padded.height * padded.width * 3);
  batch.image_sizes.assign(n * 2, 0);
  batch.scale_factors.assign(n * 2, 0);
  batch.original_sizes.assign(n * 2, 0);
  batch.image_ids.assign(n, 0);
  batch.image_indices.assign(n, 0);
  batch.flips.assign(n, 0);
  batch.left_out.assign(n, 0);
  batch.max_boxes = max_boxes_;
  batch.boxes.assign(n * max_boxes_ * 4, 0);
  batch.labels.assign(n * max_boxes_, -1);
  batch.box_counts.assign(n, 0);
  batch.max_ignore = max_ignore_;
  batch.ignore_boxes.assign(n * max_ignore_ * 4, 0);
  batch.ignore_counts.assign(n, 0);
}

bool Loader::Impl::ReadSize(const CocoImage& image, Size* size) {
  std::string path = ImagePath(options_.img_prefix, image.file_name);
  try {
    *size = SizeOfImage(options_.read_file ? options_.read_file(path) : ReadImageFile(path), path);
    return true;
  } catch (const Error& error) {
    if (options_.image_policy == Policy::kStrict) throw;
    if (options_.image_policy == Policy::kDrop)
      Tell(error.text().where + ": " + error.text().what + "; it is left out");
    return false;
  }
}

void Loader::Impl::ReadImage(int image, Sample* sample) {
  std::string path = ImagePath(options_.img_prefix, FileName(image));
  std::string file = Read(path);
  Timed([&] { DecodeImageOfSize(file, path, sizes_[static_cast<size_t>(image)], &sample->image); });
  CollectBoxes(*dataset_, image, {sample->image.width, sample->image.height}, options_.min_box_side,
               sample);
}

int Loader::Impl::ReadSample(int image, const std::vector<int32_t>& pool, int slot, int item,
                             Sample* sample) {
  auto next = [&](int after) {
    auto at = std::lower_bound(pool.begin(), pool.end(), after) + 1;
    return at >= pool.end() ? pool.front() : *at;
  };
  return FirstUsable(image, slot, item, next, [&](int which) { ReadImage(which, sample); });
}

ImageScale Loader::Impl::DrawScale(const PlannedBatch& planned, RandomStream* stream) const {
  const ScaleStep& step = planner().scales()[static_cast<size_t>(planned.scale)];
  double t = stream->NextDouble();  // drawn always, so that other draws don't depend on the mode
  auto between = [&](int low, int high) {
    return low <= high ? low + static_cast<int>((high - low + 1) * t)
                       : low - static_cast<int>((low - high + 1) * t);
  };
  if (step.low == step.high) return step.high;
  return {between(step.low.width, step.high.width), between(step.low.height, step.high.height)};
}

Size Loader::Impl::Fit(Size image, const PlannedBatch& planned, ImageScale scale) const {
  Size size = planner().Resized(image, scale);
  if (!options_.augment.changes_shape() || !options_.keep_ratio) return size;
  Size largest = planner().largest(planned.group, planned.scale);
  double shrink = std::min({1.0, static_cast<double>(largest.width) / size.width,
                            static_cast<double>(largest.height) / size.height});
  return {std::clamp(static_cast<int>(size.width * shrink), 1, largest.width),
          std::clamp(static_cast<int>(size.height * shrink), 1, largest.height)};
}

void Loader::Impl::Make(const PlannedBatch& planned, int slot, int item) {
  thread_local Sample sample;  // keeps its memory from one image to the next
  int image = plan().order[static_cast<size_t>(planned.first + item)];
  if (!options_.leave_out) {
    image = ReadSample(image, planner().group(planned.group), slot, item, &sample);
  } else if (!Usable(slot, item, [&] { ReadImage(image, &sample); })) {
    return PlaceNothing(image, item, &slots_[static_cast<size_t>(slot)]);
  }

  RandomStream stream(options_.seed, RandomPurpose::kAugment, epoch(),
                      static_cast<uint32_t>(image));
  ImageScale scale = DrawScale(planned, &stream);
  Mirror mirror;
  mirror.horizontal = stream.NextDouble() < options_.flip_ratio;
  mirror.vertical = stream.NextDouble() < options_.vertical_flip_ratio;
  auto load_other = [&](RandomStream* s) {
    Sample other;
    ReadSample(images_[s->Below(static_cast<uint32_t>(images_.size()))], images_, slot, item,
               &other);
    return other;
  };
  Augment(options_.augment, planner().largest(planned.group, planned.scale), load_other, &stream,
          &sample);
  Size resized = Fit({sample.image.width, sample.image.height}, planned, scale);
  Place(sample, image, resized, mirror, item, &slots_[static_cast<size_t>(slot)]);
}

void Loader::Impl::Place(const Sample& sample, int image, Size resized, Mirror mirror, int item,
                         Batch* batch) const {
  size_t i = static_cast<size_t>(item), stride = static_cast<size_t>(batch->width) * 3;
  uint8_t* out = batch->images.data() + i * batch->height * stride;
  int width = sample.image.width, height = sample.image.height;
  ResizeBilinear(sample.image.pixels.data(), width, height, static_cast<size_t>(width) * 3, out,
                 resized.width, resized.height, stride, mirror);
  size_t used = static_cast<size_t>(resized.width) * 3;
  for (int y = 0; y < resized.height; ++y) std::memset(out + y * stride + used, 0, stride - used);
  std::memset(out + resized.height * stride, 0, (batch->height - resized.height) * stride);

  double sx = static_cast<double>(resized.width) / width,
         sy = static_cast<double>(resized.height) / height;
  const double w = resized.width, h = resized.height;
  // False for a sliver that has no area in single precision where it comes to lie: the logarithm of
  // its sides would be infinite.
  auto put = [&](const SampleBox& box, std::vector<float>* all, size_t at) {
    // Rounding on the way may have left a box a hair outside.
    double x1 = std::clamp(box.x1 * sx, 0.0, w), x2 = std::clamp(box.x2 * sx, 0.0, w);
    double y1 = std::clamp(box.y1 * sy, 0.0, h), y2 = std::clamp(box.y2 * sy, 0.0, h);
    const std::array<float, 4> to = {static_cast<float>(mirror.horizontal ? w - x2 : x1),
                                     static_cast<float>(mirror.vertical ? h - y2 : y1),
                                     static_cast<float>(mirror.horizontal ? w - x1 : x2),
                                     static_cast<float>(mirror.vertical ? h - y1 : y2)};
    if (to[2] <= to[0] || to[3] <= to[1]) return false;
    std::copy(to.begin(), to.end(), all->begin() + static_cast<std::ptrdiff_t>(at * 4));
    return true;
  };
  size_t boxes = 0, ignored = 0;
  for (const SampleBox& box : sample.boxes) {
    if (!put(box, &batch->boxes, i * max_boxes_ + boxes)) continue;
    batch->labels[i * max_boxes_ + boxes++] = box.label;
  }
  for (const SampleBox& box : sample.ignore)
    ignored += put(box, &batch->ignore_boxes, i * max_ignore_ + ignored) ? 1 : 0;
  batch->box_counts[i] = static_cast<int32_t>(boxes);
  batch->ignore_counts[i] = static_cast<int32_t>(ignored);
  batch->image_sizes[2 * i] = resized.height;
  batch->image_sizes[2 * i + 1] = resized.width;
  batch->scale_factors[2 * i] = static_cast<float>(sx);
  batch->scale_factors[2 * i + 1] = static_cast<float>(sy);
  batch->original_sizes[2 * i] = sizes_[static_cast<size_t>(image)].height;
  batch->original_sizes[2 * i + 1] = sizes_[static_cast<size_t>(image)].width;
  batch->image_ids[i] = dataset_->images[static_cast<size_t>(image)].id;
  batch->image_indices[i] = image;
  batch->flips[i] = static_cast<uint8_t>((mirror.horizontal ? 1 : 0) | (mirror.vertical ? 2 : 0));
}

void Loader::Impl::PlaceNothing(int image, int item, Batch* batch) const {
  size_t i = static_cast<size_t>(item),
         bytes = static_cast<size_t>(batch->height) * batch->width * 3;
  std::memset(batch->images.data() + i * bytes, 0, bytes);
  batch->image_sizes[2 * i] = batch->original_sizes[2 * i] = batch->height;
  batch->image_sizes[2 * i + 1] = batch->original_sizes[2 * i + 1] = batch->width;
  batch->scale_factors[2 * i] = batch->scale_factors[2 * i + 1] = 1;
  batch->image_ids[i] = dataset_->images[static_cast<size_t>(image)].id;
  batch->image_indices[i] = image;
  batch->left_out[i] = 1;
}

Loader::Loader(std::shared_ptr<const CocoDataset> dataset, LoaderOptions options)
    : EpochLoader(std::make_unique<Impl>(std::move(dataset), std::move(options))) {}

Loader::Impl& Loader::impl() const { return static_cast<Impl&>(feed()); }
int Loader::max_boxes() const { return impl().max_boxes_; }
int Loader::max_ignore() const { return impl().max_ignore_; }
const CocoDataset& Loader::dataset() const { return *impl().dataset_; }
const LoaderOptions& Loader::options() const { return impl().options_; }
bool Loader::Next(Batch* batch) { return impl().Next(&impl().slots_, batch); }

}  // namespace xp::data
