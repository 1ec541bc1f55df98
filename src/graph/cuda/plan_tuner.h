// Finds the fastest plan for a convolution on the device at hand by running them.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "exp/base/stop.h"
#include "src/graph/cuda/engine_rates.h"
#include "src/graph/cuda/plan_maker.h"

namespace xp::graph::cuda {

struct TunedPlan {
  std::shared_ptr<ConvPlan> plan;  // null: no engine runs this problem; `why` says what cuDNN said
  std::string choice;
  float milliseconds = 0;
  bool measured = false;  // false: the device has no room to try plans, the first that builds
  std::string why;
};

// The fastest of some plans. With problem.deterministic one is accepted only after three runs, over
// different content of the workspace and of the output, gave the same bits: some engines that don't
// say so don't repeat. Plans of engines that `rates` calls hopeless are run only when no other will
// do; what ran is added to it. Throws Error of kind kInterrupted when it is stopped.
TunedPlan FastestPlan(const ConvProblem& problem, MadePlans made, EngineRates* rates,
                      cudaStream_t stream, StopFlag stop);

// Measures one plan with the same test of repeatability; false when it fails or the device has no
// room to try.
bool TryPlan(const ConvProblem& problem, TunedPlan* plan, cudaStream_t stream);

}  // namespace xp::graph::cuda
