// Our own trainer under the recorder, in two steps: what is refused before the first step leaves no
// run behind.
#pragma once

#include <memory>

#include "exp/snapshot/gpu_sampler.h"
#include "exp/train/trainer.h"
#include "src/cli/launch_record.h"
#include "src/cli/progress.h"
#include "src/cli/recording_observer.h"

namespace xp::cli {

// What was sampled since the last epoch ended, for that epoch's row.
void AddStatistics(snapshot::GpuSampler& gpu, record::EpochRow& row);

class OwnTraining {
 public:
  OwnTraining(const Launch& launch, const Prepared& prepared);
  ~OwnTraining();
  OwnTraining(const OwnTraining&) = delete;
  OwnTraining& operator=(const OwnTraining&) = delete;

  // Throws what the constructor of train::Training throws, and UsageError where a run that
  // continues another one has nothing left to train. Warnings are shown, and kept for the record.
  void MakeReady();

  // From here on what is said goes into the record, and what was said so far: also where MakeReady
  // failed.
  void RecordWith(record::RunWriter& writer) { recorder_.Begin(writer); }

  // Behind both. An epoch's row also gets what the sampler saw.
  train::EndEvent Run(snapshot::GpuSampler& gpu);

 private:
  const Launch& launch_;
  const Prepared& prepared_;
  RecordingObserver recorder_;
  Progress progress_;
  std::unique_ptr<train::Observer> both_;
  std::unique_ptr<train::Training> training_;
  snapshot::GpuSampler* gpu_ = nullptr;  // while it runs
};

}  // namespace xp::cli
