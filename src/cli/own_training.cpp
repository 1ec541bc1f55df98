#include "src/cli/own_training.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "exp/base/error.h"
#include "src/cli/signals.h"
#include "src/cli/terminal.h"

namespace xp::cli {
namespace {

// Tells everyone what the trainer says; the recorder first, so that the record never lags what was
// shown.
class Everyone : public train::Observer {
 public:
  explicit Everyone(std::vector<train::Observer*> all) : all_(std::move(all)) {}
  void OnStart(const train::StartEvent& e) override {
    for (auto* o : all_) o->OnStart(e);
  }
  void OnStep(const train::StepEvent& e) override {
    for (auto* o : all_) o->OnStep(e);
  }
  void OnPreparing(const std::string& phase) override {
    for (auto* o : all_) o->OnPreparing(phase);
  }
  void OnEvaluation(const train::EvaluationEvent& e) override {
    for (auto* o : all_) o->OnEvaluation(e);
  }
  void OnEpoch(const train::EpochEvent& e) override {
    for (auto* o : all_) o->OnEpoch(e);
  }
  void OnCheckpoint(const train::CheckpointEvent& e) override {
    for (auto* o : all_) o->OnCheckpoint(e);
  }
  void OnWarning(const train::WarningEvent& e) override {
    for (auto* o : all_) o->OnWarning(e);
  }
  void OnEnd(const train::EndEvent& e) override {
    for (auto* o : all_) o->OnEnd(e);
  }

 private:
  std::vector<train::Observer*> all_;
};

int LogInterval(const config::Node& root) {
  const config::Node* interval = root.At("log_config.interval");
  return interval && interval->IsInt() ? static_cast<int>(interval->AsInt()) : 50;
}

}  // namespace

void AddStatistics(snapshot::GpuSampler& gpu, record::EpochRow& row) {
  for (const auto& [name, value] : gpu.TakeStatistics()) row.gpu.emplace_back(name, value);
}

OwnTraining::OwnTraining(const Launch& launch, const Prepared& prepared)
    : launch_(launch),
      prepared_(prepared),
      progress_({.terminal = IsTerminal(STDOUT_FILENO),
                 .columns = TerminalColumns(STDOUT_FILENO),
                 .interval = LogInterval(launch.config.root),
                 .temperature = [this] { return gpu_ ? gpu_->Celsius() : std::nullopt; }}),
      both_(std::make_unique<Everyone>(std::vector<train::Observer*>{&recorder_, &progress_})) {
  recorder_.add_to_epoch = [this](record::EpochRow& row) {
    if (gpu_ != nullptr) AddStatistics(*gpu_, row);
  };
}

OwnTraining::~OwnTraining() = default;

void OwnTraining::MakeReady() {
  // Whatever is told next, an error too, stands on a line of its own.
  struct AtEnd {
    Progress& shown;
    ~AtEnd() { shown.Clear(); }
  } const at_end{progress_};
  train::TrainOptions options;
  options.device = launch_.device;
  options.seed = launch_.seed;
  options.work_dir = prepared_.work_dir;
  options.resume_checkpoint = launch_.resume_checkpoint;
  options.threads = prepared_.info.threads;
  options.plans = launch_.plans;
  options.max_epochs = launch_.max_epochs;
  options.stop = &StopSignals::flag();
  options.record_metadata = {
      {"exp.run", launch_.resume_run.empty() ? prepared_.info.id : launch_.resume_run},
      {"exp.config", prepared_.info.config_hash}};
  training_ = std::make_unique<train::Training>(launch_.config.root, options, *both_);
  if (launch_.relation != "continues" || training_->epochs_left() > 0) return;
  throw UsageError(
      {.what = fmt::format("nothing is left to train: the newest checkpoint of run {} is the end "
                           "of the last epoch",
                           launch_.parent_id),
       .where = launch_.resume_checkpoint.string(),
       .expected = "a larger runner.max_epochs",
       .next = "add --set runner.max_epochs=N; load_from begins at epoch 1 with its weights"});
}

train::EndEvent OwnTraining::Run(snapshot::GpuSampler& gpu) {
  gpu_ = &gpu;
  training_->Run();
  gpu_ = nullptr;
  return recorder_.end();
}

}  // namespace xp::cli
