// What happens when a number stops being one: the step is found, looked into, saved and reported.
//
// The trainer keeps each epoch's first state and what its steps gave. Steps are pure functions of
// state, data and seed, so running the epoch's steps again leads to the state before the faulty one
// and, on the way, shows whether the machine repeats its own numbers.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "exp/train/trainer.h"
#include "src/train/step_group.h"

namespace xp::train {

// An epoch as it was run so far.
struct EpochTrace {
  int epoch = 0;
  FlatState start;  // when it began, or was resumed
  int64_t start_step = 0, start_batch = 0;
  struct Step {
    StepLosses losses;
    double lr = 0;
    bool reported = false;  // `losses` are known
  };
  std::vector<Step> steps;    // from start_step on
  std::set<int64_t> skipped;  // steps whose update was left out
};

enum class Fault {
  kLoss,         // a loss term isn't finite
  kGradient,     // a gradient isn't (without fp16's loss scale, which copes with that)
  kWeights,      // a weight or a statistic isn't, after the update
  kNotRepeated,  // it was, but not when the same step was run again: the machine is to blame
};

struct Cause {
  int likelihood = 0;  // of 100, for ranking only
  std::string name;    // "hardware", "data", "learning rate", "batch norm", "fp16 overflow", ...
  std::string why, advice;
};

struct ParamReport {
  std::string name;
  double norm = 0, largest = 0;  // over the finite values
  int64_t non_finite = 0, elements = 0;
};

struct Incident {
  Fault fault = Fault::kLoss;
  int64_t step = 0;
  int epoch = 0;
  double lr = 0, loss_scale = 0;  // 0: no loss scale
  std::string term;               // of the losses, or the parameter's name
  double value = 0;
  StepLosses losses;
  std::vector<ParamReport> gradients,
      weights;          // largest norm first, those that aren't finite before
  bool repeats = true;  // run again twice from the same state: the same bits
  std::vector<data::Batch> batches;
  std::vector<std::string> files;  // of the images
  int64_t next_batch = 0;
  FlatState before;
  std::vector<double> recent;  // total losses before
  std::vector<Cause> causes;   // likeliest first
  std::filesystem::path folder;

  std::string What() const;  // "loss_box_reg is nan at step 12 (epoch 2)"
  std::string ImageIds() const;
};

// "nan", "inf", "0.25".
std::string ValueText(double value);

// Looks for the first fault up to step `suspect`, whose losses have shown one; with `every_step`
// each step's gradients and weights are looked at, else those of the last two. Leaves the state
// before the faulty step. Nothing to find in a step that was bad before is kNotRepeated.
Incident Investigate(Setup& setup, const TrainOptions& options, const EpochTrace& trace,
                     int64_t suspect, bool every_step);

// Ranks what may lie behind it.
std::vector<Cause> Diagnose(const Incident& incident, const Setup& setup, const EpochTrace& trace);

// Writes `inputs.safetensors`, `before.safetensors` (a checkpoint) and `report.json` into
// work_dir/nonfinite_step_N, sets `folder`.
void SaveIncident(Incident& incident, const Setup& setup, const TrainOptions& options);

// The report for people, many lines.
std::string IncidentText(const Incident& incident);

// The inputs that SaveIncident wrote. Throws UsageError where they are damaged.
std::vector<data::Batch> ReadInputs(const std::filesystem::path& file);

// Norms of every trained parameter's gradient after a step without update, and of the weights.
std::vector<ParamReport> GradientReport(Setup& setup);
std::vector<ParamReport> WeightReport(const Setup& setup, const FlatState& state);

}  // namespace xp::train
