// Puts what a trainer says into the record: where `train` and `record` meet.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exp/record/writer.h"
#include "exp/train/events.h"

namespace xp::cli {

// Curves: each loss term by its name, their sum "loss", "lr", and "time/data", "time/step" in
// seconds, at the number of optimizer steps done before. Names that begin with "time/" are never
// compared.
class RecordingObserver : public train::Observer {
 public:
  // Warnings may come before, and are kept until then; nothing else may.
  void Begin(record::RunWriter& writer);

  void OnStart(const train::StartEvent& e) override;
  void OnStep(const train::StepEvent& e) override;
  void OnEpoch(const train::EpochEvent& e) override;
  void OnCheckpoint(const train::CheckpointEvent& e) override;
  void OnWarning(const train::WarningEvent& e) override;
  void OnEnd(const train::EndEvent& e) override;

  // Adds to an epoch what the trainer doesn't know: the GPU's numbers.
  std::function<void(record::EpochRow&)> add_to_epoch;

  const train::EndEvent& end() const { return end_; }  // what OnEnd said

 private:
  int Series(const std::string& name);

  record::RunWriter* writer_ = nullptr;
  std::vector<train::WarningEvent> early_;
  std::map<std::string, int> series_;
  train::EndEvent end_;
};

}  // namespace xp::cli
