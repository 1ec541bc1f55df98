// cuDNN for one device: hands out a plan for each convolution, found by measuring or remembered.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/graph/cuda/compiled_plans.h"
#include "src/graph/cuda/conv_graph.h"
#include "src/graph/cuda/cudnn_library.h"
#include "src/graph/cuda/engine_rates.h"
#include "src/graph/cuda/kernel.h"
#include "src/graph/cuda/plan_cache.h"
#include "src/graph/cuda/plan_maker.h"
#include "src/graph/cuda/plan_tuner.h"

namespace xp::graph::cuda {

class Dnn {
 public:
  Dnn(const Device& device, const CudaOptions& options, cudaStream_t stream);

  // The plan in force for a problem: one that CudaOptions::plans names, else the cache's, else the
  // fastest of those that cuDNN proposes and that gave the same bits three times. Throws UsageError
  // when there is none. A neighbour's plan (other pixels, the rest alike) is tried before a search.
  std::shared_ptr<ConvPlan> Plan(const ConvProblem& problem);

  // Says which problems will be asked for, in their order, so that their plans are made meanwhile.
  void Announce(const std::vector<ConvProblem>& problems);

  // Plan() throws Error of kind kInterrupted soon after the flag is set; null: nothing stops it.
  void StopAt(StopFlag stop) { stop_ = stop; }

  std::string version_text() const { return OpenCudnn().version_text(); }
  // "device = <GPU>, cuDNN <version>", then "<problem> = <choice>", sorted, of the plans handed out
  // so far; empty when there were none.
  std::vector<std::string> PlanNotes() const;

 private:
  std::shared_ptr<ConvPlan> Build(const ConvProblem& problem, const std::string& choice,
                                  std::string* why);
  std::string RememberedChoice(const std::string& key) const;
  TunedPlan Borrow(const ConvProblem& problem);
  std::shared_ptr<ConvPlan> Use(const ConvProblem& problem, const std::string& choice,
                                std::shared_ptr<ConvPlan> plan);

  cudaStream_t stream_;
  StopFlag stop_ = nullptr;
  size_t engines_tried_;
  CudnnHandle handle_;
  std::shared_ptr<ConvTarget> target_;
  PlanCache cache_;
  CompiledPlans compiled_;
  std::string made_for_;                      // "NVIDIA H200, cuDNN 9.19.0"
  std::map<std::string, std::string> named_;  // CudaOptions::plans

  struct InUse {
    ConvProblem problem;
    std::string choice;
    std::shared_ptr<ConvPlan> plan;
  };
  std::map<std::string, InUse> in_use_;
  EngineRates rates_;
  PlanMaker maker_;
};

}  // namespace xp::graph::cuda
