// Shows a run's progress: on a terminal one live line, otherwise plain lines.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>

#include "exp/train/events.h"
#include "src/cli/terminal.h"

namespace xp::cli {

struct ProgressOptions {
  std::FILE* out = stdout;
  bool terminal = false;  // out is one
  int columns = 100;
  int interval = 50;  // plain lines: one each so many steps
  // Degrees Celsius of the GPU in use, if there is one and it tells.
  std::function<std::optional<double>()> temperature;
};

class Progress : public train::Observer {
 public:
  explicit Progress(ProgressOptions options) : o_(std::move(options)) {}

  void OnPreparing(const std::string& phase) override;
  void OnStart(const train::StartEvent& e) override;
  void OnStep(const train::StepEvent& e) override;
  void OnEvaluation(const train::EvaluationEvent& e) override;
  void OnEpoch(const train::EpochEvent& e) override;
  void OnCheckpoint(const train::CheckpointEvent& e) override;
  void OnWarning(const train::WarningEvent& e) override;
  void OnEnd(const train::EndEvent& e) override;
  // Takes the live line away, for another to stand there.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::string Facts(const train::StepEvent& e);
  void Line(const std::string& text);  // a lasting line, above the live one
  void Live(const std::string& text);

  ProgressOptions o_;
  train::StartEvent start_;
  Clock::time_point began_, last_shown_;
  int64_t first_step_ = -1;
  int64_t images_ = 0;  // since the speed was last taken
  Clock::time_point speed_from_;
  double images_per_second_ = 0;
  std::optional<Pace> evaluation_;  // of the epoch, while it is under way
  bool live_ = false;
};

}  // namespace xp::cli
