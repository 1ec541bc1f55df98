// Which images make up which batch of an epoch, and the few padded shapes that batches have.
#pragma once

#include <cstdint>
#include <vector>

#include "exp/data/loader.h"

namespace xp::data {

// One batch: images order[first .. first + count), of one group, at one scale.
struct PlannedBatch {
  int64_t first = 0;
  int count = 0;
  int group = 0;
  int scale = 0;  // index into EpochPlanner's scale steps
};

struct EpochPlan {
  std::vector<int32_t> order;  // image indices
  std::vector<PlannedBatch> batches;
};

// A range of scales: a batch draws one, each of its images a scale inside. Equal ends: that scale.
struct ScaleStep {
  ImageScale low, high;
};

class EpochPlanner {
 public:
  // `images`: indices of the images to draw from, `sizes` theirs by image index (original pixels).
  EpochPlanner(const LoaderOptions& options, std::vector<int32_t> images,
               const std::vector<Size>& sizes);

  // A pure function of the epoch.
  EpochPlan Plan(uint32_t epoch) const;

  int64_t batches_per_epoch() const;
  Size padded(int group, int scale) const {
    return padded_[static_cast<size_t>(group)][static_cast<size_t>(scale)];
  }
  // The largest width and height that an image of the group has at this scale, not rounded up.
  Size largest(int group, int scale) const {
    return largest_[static_cast<size_t>(group)][static_cast<size_t>(scale)];
  }
  const std::vector<ScaleStep>& scales() const { return scales_; }
  std::vector<Bucket> Buckets() const;
  // The images of a group, in the order of the data set.
  const std::vector<int32_t>& group(int index) const { return groups_[static_cast<size_t>(index)]; }

  // The size that an image has after the resize to a scale.
  Size Resized(Size image, ImageScale scale) const;

 private:
  void AddBatch(EpochPlan* plan, std::vector<int32_t>* members, int group) const;
  void AddLast(EpochPlan* plan, std::vector<int32_t>* members, const std::vector<int32_t>& all,
               int group) const;

  LoaderOptions options_;
  std::vector<ScaleStep> scales_;
  std::vector<int32_t> images_;
  std::vector<std::vector<int32_t>> groups_;         // landscape and portrait
  std::vector<int> group_of_;                        // by image index
  std::vector<std::vector<Size>> largest_, padded_;  // [group][scale]
};

}  // namespace xp::data
