#include "src/data/epoch_plan.h"

#include <algorithm>
#include <cmath>

#include "exp/base/philox.h"

namespace xp::data {
namespace {

int RoundUp(int value, int divisor) { return (value + divisor - 1) / divisor * divisor; }

ImageScale Between(ImageScale a, ImageScale b, double t, bool keep_ratio) {
  auto mix = [t](int from, int to) {
    return static_cast<int>(std::lround(from + (to - from) * t));
  };
  if (!keep_ratio) return {mix(a.width, b.width), mix(a.height, b.height)};
  // Longer and shorter bounds each on their own, as mmdetection's range does.
  int long_a = std::max(a.width, a.height), long_b = std::max(b.width, b.height);
  int short_a = std::min(a.width, a.height), short_b = std::min(b.width, b.height);
  return {mix(long_a, long_b), mix(short_a, short_b)};
}

std::vector<ScaleStep> MakeSteps(const LoaderOptions& options) {
  std::vector<ScaleStep> steps;
  if (options.multiscale == MultiscaleMode::kRange && options.scales.size() == 2) {
    ImageScale low = options.scales[0], high = options.scales[1];
    if (std::min(low.width, low.height) > std::min(high.width, high.height)) std::swap(low, high);
    for (int i = 0; i < options.range_steps; ++i) {
      double n = options.range_steps;
      steps.push_back({Between(low, high, i / n, options.keep_ratio),
                       Between(low, high, (i + 1) / n, options.keep_ratio)});
    }
    return steps;
  }
  for (ImageScale scale : options.scales) steps.push_back({scale, scale});
  return steps;
}

}  // namespace

EpochPlanner::EpochPlanner(const LoaderOptions& options, std::vector<int32_t> images,
                           const std::vector<Size>& sizes)
    : options_(options),
      scales_(MakeSteps(options)),
      images_(std::move(images)),
      group_of_(sizes.size(), 0) {
  groups_.resize(2);
  padded_ = largest_ = std::vector<std::vector<Size>>(2, std::vector<Size>(scales_.size()));
  for (int32_t image : images_) {
    Size size = sizes[static_cast<size_t>(image)];
    int group = options_.aspect_grouping && size.height > size.width ? 1 : 0;
    group_of_[static_cast<size_t>(image)] = group;
    groups_[static_cast<size_t>(group)].push_back(image);
    for (size_t s = 0; s < scales_.size(); ++s) {
      // An image may be larger between the two ends than at either, where one bound rises and the
      // other falls.
      const ScaleStep& step = scales_[s];
      const Size most = Resized(size, {std::max(step.low.width, step.high.width),
                                       std::max(step.low.height, step.high.height)});
      Size& largest = largest_[static_cast<size_t>(group)][s];
      largest.width = std::max(largest.width, most.width);
      largest.height = std::max(largest.height, most.height);
      padded_[static_cast<size_t>(group)][s] = {RoundUp(largest.width, options_.size_divisor),
                                                RoundUp(largest.height, options_.size_divisor)};
    }
  }
}

Size EpochPlanner::Resized(Size image, ImageScale scale) const {
  if (!options_.keep_ratio) return {scale.width, scale.height};
  return KeepRatioSize(image, scale, options_.rounding);
}

void EpochPlanner::AddBatch(EpochPlan* plan, std::vector<int32_t>* members, int group) const {
  PlannedBatch batch;
  batch.first = static_cast<int64_t>(plan->order.size());
  batch.count = static_cast<int>(members->size());
  batch.group = group;
  plan->order.insert(plan->order.end(), members->begin(), members->end());
  plan->batches.push_back(batch);
  members->clear();
}

void EpochPlanner::AddLast(EpochPlan* plan, std::vector<int32_t>* members,
                           const std::vector<int32_t>& all, int group) const {
  if (members->empty() || options_.last_batch == LastBatch::kDrop) return;
  if (options_.last_batch == LastBatch::kRepeat) {
    for (size_t i = 0; members->size() < static_cast<size_t>(options_.samples_per_gpu); ++i) {
      members->push_back(all[i % all.size()]);
    }
  }
  AddBatch(plan, members, group);
}

EpochPlan EpochPlanner::Plan(uint32_t epoch) const {
  std::vector<int32_t> order = images_;
  if (options_.shuffle) {
    RandomStream stream(options_.seed, RandomPurpose::kShuffle, epoch, 0);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[stream.Below(static_cast<uint32_t>(i))]);
  }
  EpochPlan all;
  std::vector<std::vector<int32_t>> waiting(groups_.size()), seen(groups_.size());
  for (int32_t image : order) {
    size_t group = static_cast<size_t>(group_of_[static_cast<size_t>(image)]);
    seen[group].push_back(image);
    waiting[group].push_back(image);
    if (waiting[group].size() == static_cast<size_t>(options_.samples_per_gpu)) {
      AddBatch(&all, &waiting[group], static_cast<int>(group));
    }
  }
  for (size_t g = 0; g < groups_.size(); ++g)
    AddLast(&all, &waiting[g], seen[g], static_cast<int>(g));
  for (size_t b = 0; b < all.batches.size(); ++b) {
    RandomStream stream(options_.seed, RandomPurpose::kShuffle, epoch,
                        static_cast<uint32_t>(b) + 1);
    all.batches[b].scale = static_cast<int>(stream.Below(static_cast<uint32_t>(scales_.size())));
  }
  if (options_.world == 1) return all;
  std::vector<PlannedBatch> mine;
  for (size_t i = 0; i < all.batches.size() / static_cast<size_t>(options_.world); ++i) {
    mine.push_back(
        all.batches[i * static_cast<size_t>(options_.world) + static_cast<size_t>(options_.rank)]);
  }
  all.batches = std::move(mine);
  return all;
}

int64_t EpochPlanner::batches_per_epoch() const {
  int64_t total = 0;
  for (const auto& group : groups_) {
    int64_t n = options_.samples_per_gpu, size = static_cast<int64_t>(group.size());
    total += options_.last_batch == LastBatch::kDrop ? size / n : (size + n - 1) / n;
  }
  return total / options_.world;
}

std::vector<Bucket> EpochPlanner::Buckets() const {
  std::vector<Bucket> buckets;
  auto add = [&](int n, Size size) {
    Bucket bucket{n, size.height, size.width};
    if (std::find(buckets.begin(), buckets.end(), bucket) == buckets.end())
      buckets.push_back(bucket);
  };
  for (size_t g = 0; g < groups_.size(); ++g) {
    int n = options_.samples_per_gpu, size = static_cast<int>(groups_[g].size());
    for (size_t s = 0; s < scales_.size(); ++s) {
      bool repeated = options_.last_batch == LastBatch::kRepeat && size > 0;
      if (size >= n || repeated) add(n, padded_[g][s]);
      if (size % n != 0 && options_.last_batch == LastBatch::kSmaller) add(size % n, padded_[g][s]);
    }
  }
  std::stable_sort(buckets.begin(), buckets.end(), [](const Bucket& a, const Bucket& b) {
    return static_cast<int64_t>(a.n) * a.height * a.width >
           static_cast<int64_t>(b.n) * b.height * b.width;
  });
  return buckets;
}

}  // namespace xp::data
