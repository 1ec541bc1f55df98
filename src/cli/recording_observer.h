// Puts what a trainer says into the record: where `train` and `record` meet.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "exp/record/writer.h"
#include "exp/train/events.h"

namespace xp::cli {

// Curves: each loss term by its name, their sum "loss", "lr", and "time/data", "time/step" in
// seconds, at the number of optimizer steps done before. Names that begin with "time/" are never
// compared.
class RecordingObserver : public train::Observer {
 public:
  explicit RecordingObserver(record::RunWriter& writer) : writer_(writer) {}

  void OnStart(const train::StartEvent& e) override;
  void OnStep(const train::StepEvent& e) override;
  void OnEpoch(const train::EpochEvent& e) override;
  void OnCheckpoint(const train::CheckpointEvent& e) override;
  void OnWarning(const train::WarningEvent& e) override;
  void OnEnd(const train::EndEvent& e) override;

  // Adds to an epoch what the trainer doesn't know: the GPU's numbers.
  std::function<void(record::EpochRow&)> add_to_epoch;

  bool ended() const { return ended_; }
  train::EndState end_state() const { return end_.state; }
  const std::string& end_reason() const { return end_.reason; }

 private:
  int Series(const std::string& name);

  record::RunWriter& writer_;
  std::map<std::string, int> series_;
  train::EndEvent end_;
  bool ended_ = false;
};

}  // namespace xp::cli
