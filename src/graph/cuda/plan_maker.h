// Makes plans on other threads, ahead of need: some engines are compiled when their plan is made,
// which takes a core up to a second each, while the device measures those that are ready.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/graph/cuda/compiled_plans.h"
#include "src/graph/cuda/conv_variants.h"

namespace xp::graph::cuda {

struct PlanCandidate {
  std::string choice;  // "<variant>:<engine>"
  std::shared_ptr<ConvPlan> plan;
  float milliseconds = 0;
};

struct MadePlans {
  std::vector<PlanCandidate> candidates;  // by variant, the most promising of each first
  std::string why;                        // a reason that cuDNN gave for one that can't be made
};

// Plans for a problem: of `choice` if that isn't empty, else of at most `engines` of each variant.
// `first_only`: the first that can be made. `compiled`: where a plan of `choice` may be found that
// needn't be compiled again. Thread-safe.
MadePlans MakePlans(const std::shared_ptr<ConvTarget>& target, const ConvProblem& problem,
                    const std::string& choice, size_t engines, cudaStream_t stream,
                    bool first_only = false, const CompiledPlans* compiled = nullptr);

class PlanMaker {
 public:
  PlanMaker(std::shared_ptr<ConvTarget> target, size_t engines, cudaStream_t stream,
            CompiledPlans compiled = CompiledPlans(""));
  ~PlanMaker();
  PlanMaker(const PlanMaker&) = delete;
  PlanMaker& operator=(const PlanMaker&) = delete;

  struct Request {
    ConvProblem problem;
    std::string choice;  // empty: any
  };
  // Begins with these, in their order, on all cores but one; what an earlier call left is dropped.
  void Start(std::vector<Request> requests);
  // The plans of a problem: waits for those that were begun, makes others here and now.
  MadePlans Take(const Request& request);

 private:
  enum class State : uint8_t { kWaiting, kBegun, kMade, kTaken };
  struct Job {
    Request request;
    State state = State::kWaiting;
    MadePlans made;
  };
  void Work();
  void Stop();
  MadePlans Make(const Request& request) const;
  // With the mutex held: the first job that waits; null when there is none or enough are ready.
  Job* NextJob();

  std::shared_ptr<ConvTarget> target_;
  size_t engines_;
  cudaStream_t stream_;
  CompiledPlans compiled_;
  int device_ = -1;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;
  size_t held_ = 0;  // begun or made, not yet taken
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace xp::graph::cuda
