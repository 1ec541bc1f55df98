// What the loaders of both tasks share: an epoch's batches made ahead of need by threads, images
// that can't be used replaced by others, and where the threads' time went.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exp/base/error.h"
#include "exp/data/coco.h"
#include "exp/data/epoch_loader.h"
#include "src/data/epoch_plan.h"
#include "src/data/pipeline.h"

namespace xp::data {

// Throws UsageError about the option unless it is good.
void CheckLoaderOption(bool good, const char* what, const char* expected);

// Those that the options of both loaders have.
template <class Options>
void CheckFeedOptions(const Options& o) {
  CheckLoaderOption(o.samples_per_gpu >= 1 && o.samples_per_gpu <= 65536,
                    "`samples_per_gpu` is out of range", "1 or more");
  CheckLoaderOption(o.workers >= 1 && o.workers <= 1024, "`workers_per_gpu` is out of range",
                    "1 .. 1024");
  CheckLoaderOption(o.prefetch >= 1 && o.prefetch <= 1024, "`prefetch` is out of range",
                    "1 .. 1024");
  CheckLoaderOption(o.flip_ratio >= 0 && o.flip_ratio <= 1, "`flip_ratio` is out of range",
                    "0 .. 1");
  CheckLoaderOption(o.world >= 1 && o.rank >= 0 && o.rank < o.world, "rank and world don't fit",
                    "0 <= rank < world");
}

class EpochFeed : public BatchSource {
 public:
  // As EpochLoader's.
  void StartEpoch(uint32_t epoch, int64_t start_batch);
  int ImagesIn(int64_t batch) const { return plan_.batches[static_cast<size_t>(batch)].count; }
  int64_t batches_per_epoch() const { return planner_->batches_per_epoch(); }
  std::vector<std::string> TakeWarnings() { return std::exchange(told_, {}); }
  StageSeconds TakeStages();
  const std::vector<Bucket>& buckets() const { return buckets_; }
  int64_t images() const { return settings_.images; }
  int workers() const { return settings_.workers; }

  // Swaps the next batch out of its place in `slots`; false at the epoch's end.
  template <class Batch>
  bool Next(std::vector<Batch>* slots, Batch* batch) {
    int slot = pipeline_->Next();
    if (slot < 0) return false;
    std::swap(*batch, (*slots)[static_cast<size_t>(slot)]);
    Finish(slot);
    return true;
  }

  int Open(int64_t batch, int slot) final;
  void Fill(int64_t batch, int slot, int item) final;

 protected:
  struct Settings {
    int64_t images = 0;  // that an epoch draws from
    int workers = 1, prefetch = 1;
    Policy image_policy = Policy::kStrict;
    ReadImageFn read_file;  // empty: ReadImageFile
  };

  // Starts the threads: once, when everything that Prepare and Make read is there.
  void Begin(std::unique_ptr<EpochPlanner> planner, Settings settings);
  // Ends them: the first thing that a destructor does.
  void End() { pipeline_.reset(); }

  // Makes a slot ready for a batch, and one of its items. Called from several threads.
  virtual void Prepare(const PlannedBatch& planned, int slot) = 0;
  virtual void Make(const PlannedBatch& planned, int slot, int item) = 0;
  virtual const std::string& FileName(int image) const = 0;

  const EpochPlanner& planner() const { return *planner_; }
  const EpochPlan& plan() const { return plan_; }
  uint32_t epoch() const { return epoch_; }

  // Adds a line to TakeWarnings. Not from the threads.
  void Tell(std::string line) { told_.push_back(std::move(line)); }

  // A file's content, from wherever it comes; its time counts as reading.
  std::string Read(const std::string& path);

  // Runs `decode` and counts its time as decoding.
  template <class Decode>
  void Timed(const Decode& decode) {
    Clock::time_point start = Clock::now();
    decode();
    Add(&decode_nanos_, start);
  }

  // make(image), and where that image can't be used and the policy isn't kStrict, make(next(image))
  // and so on until all have been tried. Returns the image that was made.
  template <class Next, class MakeOne>
  int FirstUsable(const int image, int slot, int item, const Next& next, const MakeOne& make) {
    std::optional<Error> problem;  // with the image that was asked for
    int which = image;
    do {
      try {
        make(which);
        if (problem) Warn(*problem, FileName(which) + " was taken instead", slot, item);
        return which;
      } catch (const Error& error) {
        if (settings_.image_policy == Policy::kStrict) throw Skippable(error);
        if (!problem) problem = error;
        which = next(which);
      }
    } while (which != image);
    throw NoneUsable(*problem);
  }

  // Runs `make`; false where the image can't be used and the policy isn't kStrict.
  template <class MakeOne>
  bool Usable(int slot, int item, const MakeOne& make) {
    try {
      make();
      return true;
    } catch (const Error& error) {
      if (settings_.image_policy == Policy::kStrict) throw Skippable(error);
      Warn(error, "it is left out", slot, item);
      return false;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Finish(int slot);
  // Under kDrop, that and what was done about it.
  void Warn(const Error& error, const std::string& done, int slot, int item);
  static Error NoneUsable(const Error& first);
  // The error about an image, with the option that trains without it.
  static Error Skippable(const Error& error);
  static void Add(std::atomic<int64_t>* to, Clock::time_point since) {
    *to += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - since).count();
  }

  Settings settings_;
  std::unique_ptr<EpochPlanner> planner_;
  std::vector<Bucket> buckets_;
  uint32_t epoch_ = 0;
  EpochPlan plan_;
  std::vector<std::vector<std::pair<int, std::string>>> warnings_;  // of each slot: item, text
  std::mutex warnings_mutex_;
  std::vector<std::string> told_;
  std::atomic<int64_t> read_nanos_{0}, decode_nanos_{0}, all_nanos_{0}, images_{0};
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace xp::data
