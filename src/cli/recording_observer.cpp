#include "src/cli/recording_observer.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

namespace xp::cli {

void RecordingObserver::Begin(record::RunWriter& writer) {
  writer_ = &writer;
  for (const train::WarningEvent& e : std::exchange(early_, {})) OnWarning(e);
}

int RecordingObserver::Series(const std::string& name) {
  auto found = series_.find(name);
  if (found == series_.end()) found = series_.emplace(name, writer_->Series(name)).first;
  return found->second;
}

void RecordingObserver::OnStart(const train::StartEvent& e) {
  nlohmann::json start = {{"max_epochs", e.max_epochs},
                          {"start_epoch", e.start_epoch},
                          {"steps_per_epoch", e.steps_per_epoch},
                          {"start_step", e.start_step},
                          {"train_images", e.train_images},
                          {"val_images", e.val_images},
                          {"parameters", e.parameters},
                          {"planned_bytes", e.planned_bytes},
                          {"device", e.device}};
  for (const auto& [name, seconds] : e.phases) start["phases"][name] = seconds;
  if (!e.plans.empty()) start["plans"] = e.plans;
  writer_->Start(start.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), e.device);
}

void RecordingObserver::OnStep(const train::StepEvent& e) {
  for (const auto& [name, value] : e.losses) writer_->Point(Series(name), e.step, value);
  writer_->Point(Series("loss"), e.step, e.total);
  writer_->Point(Series("lr"), e.step, e.lr);
  if (e.grad_norm >= 0) writer_->Point(Series("grad_norm"), e.step, e.grad_norm);
  writer_->Point(Series("time/data"), e.step, e.data_seconds);
  writer_->Point(Series("time/step"), e.step, e.step_seconds);
}

void RecordingObserver::OnEpoch(const train::EpochEvent& e) {
  record::EpochRow row;
  row.epoch = e.epoch;
  row.step = e.step;
  for (const auto& [name, value] : e.losses) row.losses.emplace_back(name, value);
  row.losses.emplace_back("total", e.total);
  for (const auto& [name, value] : e.metrics) row.metrics.emplace_back(name, value);
  row.train_seconds = e.train_seconds;
  row.eval_seconds = e.eval_seconds;
  row.data_seconds = e.data_seconds;
  row.images_per_second = e.images_per_second;
  row.weights_hash = e.weights_hash.Hex();
  row.optimizer_hash = e.optimizer_hash.Hex();
  if (add_to_epoch) add_to_epoch(row);
  writer_->Epoch(std::move(row));
}

void RecordingObserver::OnCheckpoint(const train::CheckpointEvent& e) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(e.path, error);
  writer_->Checkpoint({error ? e.path : path.string(), e.hash.Hex(), e.epoch, e.step,
                       static_cast<int64_t>(e.bytes)});
}

void RecordingObserver::OnWarning(const train::WarningEvent& e) {
  if (writer_ == nullptr) return early_.push_back(e);
  writer_->Warning(e.code, e.message, e.step);
}

// The run's end is written by whoever owns the run: more may follow the trainer's last word.
void RecordingObserver::OnEnd(const train::EndEvent& e) { end_ = e; }

}  // namespace xp::cli
