// What a training run tells the world. The trainer emits these and knows nothing of who listens:
// the recorder, the progress display and the GPU sampler are observers, joined in src/cli/run.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "exp/base/hash.h"

namespace xp::train {

// Name and value, in the order in which the model reports them ("loss_rpn_box_reg", 0.12).
using NamedValues = std::vector<std::pair<std::string, double>>;

struct StartEvent {
  int max_epochs = 0;
  int start_epoch = 0;  // > 0 when resumed
  int64_t steps_per_epoch = 0;
  int64_t start_step = 0;
  int64_t train_images = 0;
  int64_t val_images = 0;
  int64_t parameters = 0;      // trained and frozen
  uint64_t planned_bytes = 0;  // memory plan: weights, gradients, optimizer, activations, workspace
  std::string device;          // "cpu (...)", "cuda:0 (NVIDIA H200, driver ...)"
  // Seconds of getting ready, of each of OnPreparing's phases.
  NamedValues phases;
  // What the device's backend chose by measuring and what decides bits (Backend::PlanNotes).
  std::vector<std::string> plans;
};

struct StepEvent {
  int64_t step = 0;  // optimizer steps done before this one, over all epochs
  int epoch = 0;     // 0-based
  int64_t step_in_epoch = 0;
  double lr = 0;
  NamedValues losses;     // each term, unweighted
  double total = 0;       // their sum, what is minimised
  double grad_norm = -1;  // of all gradients together, where the step computes it; else -1
  int images = 0;
  double data_seconds = 0;  // waited for the loader
  double step_seconds = 0;
};

// An epoch's steps are done, and the validation set is being gone through.
struct EvaluationEvent {
  int epoch = 0;                   // 0-based
  int64_t images = 0, of_all = 0;  // done so far, and in the set
};

struct EpochEvent {
  int epoch = 0;       // 0-based, just ended
  int64_t step = 0;    // optimizer steps done so far
  NamedValues losses;  // means over the epoch's steps
  double total = 0;
  NamedValues metrics;  // "bbox_mAP", "bbox_mAP_50", ... empty when not evaluated
  double train_seconds = 0, eval_seconds = 0, data_seconds = 0;
  double images_per_second = 0;
  double lr = 0;           // of the last step
  Hash128 weights_hash;    // parameters and batch-norm statistics, fp32 bytes in layout order
  Hash128 optimizer_hash;  // optimizer state
};

struct CheckpointEvent {
  std::string path;
  Hash128 hash;   // of the file's content
  int epoch = 0;  // 0-based: the one just ended, or the one under way when it was interrupted
  int64_t step = 0;
  uint64_t bytes = 0;
};

struct WarningEvent {
  std::string code;  // stable name: "data.zero_area_box", "lr.not_scaled"
  std::string message;
  int64_t step = -1;  // -1: not tied to a step
};

enum class EndState { kFinished, kFailed, kInterrupted };

struct EndEvent {
  EndState state = EndState::kFinished;
  std::string reason;  // empty when finished
};

// All calls come from the training thread, in order. An observer that throws ends the run as
// failed.
class Observer {
 public:
  virtual ~Observer() = default;
  // One of the phases of getting ready begins: "data", "device", "weights", "steps" (kernels, plans
  // and memory of the training steps), "evaluation". Before OnStart.
  virtual void OnPreparing(const std::string& phase) { static_cast<void>(phase); }
  virtual void OnStart(const StartEvent&) {}
  virtual void OnStep(const StepEvent&) {}
  virtual void OnEvaluation(const EvaluationEvent&) {}
  virtual void OnEpoch(const EpochEvent&) {}
  virtual void OnCheckpoint(const CheckpointEvent&) {}
  virtual void OnWarning(const WarningEvent&) {}
  virtual void OnEnd(const EndEvent&) {}
};

}  // namespace xp::train
