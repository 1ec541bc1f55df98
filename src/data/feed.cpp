#include "src/data/feed.h"

#include <fmt/format.h>

#include <algorithm>

#include "exp/data/image_io.h"

namespace xp::data {

void CheckLoaderOption(bool good, const char* what, const char* expected) {
  if (!good) throw UsageError({.what = what, .where = "data", .expected = expected});
}

EpochLoader::EpochLoader(std::unique_ptr<EpochFeed> feed) : feed_(std::move(feed)) {}
EpochLoader::~EpochLoader() = default;
const std::vector<Bucket>& EpochLoader::Buckets() const { return feed_->buckets(); }
int64_t EpochLoader::batches_per_epoch() const { return feed_->batches_per_epoch(); }
int64_t EpochLoader::images() const { return feed_->images(); }
int EpochLoader::workers() const { return feed_->workers(); }
void EpochLoader::StartEpoch(uint32_t epoch, int64_t start_batch) {
  feed_->StartEpoch(epoch, start_batch);
}
int EpochLoader::ImagesIn(int64_t batch) const { return feed_->ImagesIn(batch); }
std::vector<std::string> EpochLoader::TakeWarnings() { return feed_->TakeWarnings(); }
StageSeconds EpochLoader::TakeStages() { return feed_->TakeStages(); }

void EpochFeed::Begin(std::unique_ptr<EpochPlanner> planner, Settings settings) {
  planner_ = std::move(planner);
  settings_ = std::move(settings);
  buckets_ = planner_->Buckets();
  warnings_.resize(static_cast<size_t>(settings_.prefetch));
  pipeline_ = std::make_unique<Pipeline>(this, settings_.workers, settings_.prefetch);
}

void EpochFeed::StartEpoch(uint32_t epoch, int64_t start_batch) {
  int64_t end = batches_per_epoch();
  if (start_batch < 0 || start_batch > end) {
    throw JobError(
        {.what = fmt::format("batch {} is not in an epoch of {} batches", start_batch, end),
         .next = "was the run recorded with other data or another batch size?"});
  }
  pipeline_->Stop();
  epoch_ = epoch;
  plan_ = planner_->Plan(epoch);
  pipeline_->Start(start_batch, end);
}

int EpochFeed::Open(int64_t batch, int slot) {
  const PlannedBatch& planned = plan_.batches[static_cast<size_t>(batch)];
  warnings_[static_cast<size_t>(slot)].clear();
  Prepare(planned, slot);
  return planned.count;
}

void EpochFeed::Fill(int64_t batch, int slot, int item) {
  Clock::time_point start = Clock::now();
  Make(plan_.batches[static_cast<size_t>(batch)], slot, item);
  Add(&all_nanos_, start);
  ++images_;
}

std::string EpochFeed::Read(const std::string& path) {
  Clock::time_point start = Clock::now();
  std::string file = settings_.read_file ? settings_.read_file(path) : ReadImageFile(path);
  Add(&read_nanos_, start);
  return file;
}

void EpochFeed::Finish(int slot) {
  auto& warnings = warnings_[static_cast<size_t>(slot)];
  std::stable_sort(warnings.begin(), warnings.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [item, text] : warnings) told_.push_back(std::move(text));
  warnings.clear();
  pipeline_->Release(slot);
}

void EpochFeed::Warn(const Error& error, const std::string& done, int slot, int item) {
  if (settings_.image_policy != Policy::kDrop) return;
  std::lock_guard lock(warnings_mutex_);
  warnings_[static_cast<size_t>(slot)].emplace_back(
      item, fmt::format("{}: {}; {}", error.text().where, error.text().what, done));
}

Error EpochFeed::NoneUsable(const Error& first) {
  return UsageError({.what = first.text().what + "; nor can any other image be used in its place",
                     .where = first.text().where,
                     .expected = "at least one usable image of each group",
                     .next = "`exp data check` lists what is wrong with the files"});
}

Error EpochFeed::Skippable(const Error& error) {
  ErrorText text = error.text();
  if (!text.next.empty()) text.next += ", or ";
  text.next += "leave such images out with `on_error: skip`";
  return {error.kind(), std::move(text)};
}

StageSeconds EpochFeed::TakeStages() {
  auto seconds = [](std::atomic<int64_t>* nanos) {
    return static_cast<double>(nanos->exchange(0)) * 1e-9;
  };
  StageSeconds stages;
  stages.read = seconds(&read_nanos_);
  stages.decode = seconds(&decode_nanos_);
  // The three are taken one after another while threads go on: never below nothing.
  stages.transform = std::max(0.0, seconds(&all_nanos_) - stages.read - stages.decode);
  stages.images = images_.exchange(0);
  return stages;
}

}  // namespace xp::data
