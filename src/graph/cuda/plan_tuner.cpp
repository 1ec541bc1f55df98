#include "src/graph/cuda/plan_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <vector>

#include "exp/base/error.h"
#include "kernels/content_hash.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/element_type.h"

namespace xp::graph::cuda {
namespace {

constexpr float kHopeless = 1.5f;  // not measured further when that many times the best
// The first run loads kernels, which may take that long; one that is slower than the best even so
// isn't run again.
constexpr float kLoading = 100.0f;
constexpr float kFarOff = 4.0f;

// Device memory for trying plans; null data when there is no room.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : bytes_(bytes) {
    // Never null for want of bytes; what lies beyond them is nobody's and must not be compared.
    if (cudaMalloc(&data_, std::max<size_t>(bytes, 256)) != cudaSuccess) {
      data_ = nullptr;
      cudaGetLastError();
    }
  }
  ~Scratch() { cudaFree(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

class TimingEvent {
 public:
  TimingEvent() { Check(cudaEventCreate(&event_), "creating an event"); }
  ~TimingEvent() { cudaEventDestroy(event_); }
  TimingEvent(const TimingEvent&) = delete;
  TimingEvent& operator=(const TimingEvent&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

double Seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

// Buffers with random content in which plans of one problem are run.
class Bench {
 public:
  Bench(const ConvProblem& problem, cudaStream_t stream)
      : problem_(problem),
        stream_(stream),
        x_(Bytes(problem.x_elements())),
        w_(Bytes(problem.w_elements())),
        y_(Bytes(problem.y_elements())),
        bias_(static_cast<size_t>(problem.k) * sizeof(float)),
        hash_(sizeof(uint64_t)) {}

  bool Fits() const { return x_.data() && w_.data() && y_.data() && bias_.data() && hash_.data(); }

  void Fill() {
    kernels::ElementType type = ElementTypeOf(problem_.type);
    kernels::FillRandom(x_.data(), static_cast<size_t>(problem_.x_elements()), type, 1, stream_);
    kernels::FillRandom(w_.data(), static_cast<size_t>(problem_.w_elements()), type, 2, stream_);
    kernels::FillRandom(y_.data(), static_cast<size_t>(problem_.y_elements()), type, 3, stream_);
    kernels::FillRandom(bias_.data(), static_cast<size_t>(problem_.k), kernels::ElementType::kF32,
                        4, stream_);
    CheckLaunch("FillRandom");
  }

  // False when the plan fails or the device has no room for its workspace.
  bool Time(PlanCandidate* candidate) {
    size_t workspace = candidate->plan->workspace_bytes();
    // A first layer in another form may take as much as its map: alive while little else is.
    size_t limit = std::max(kMaxWorkspace, Bytes(problem_.y_elements()));
    if (workspace > limit || !Reserve(workspace)) return false;
    try {
      float once = Average(*candidate->plan, 1);  // loads the kernels
      if (once < kFarOff * best_ + kLoading) once = Average(*candidate->plan, 1);
      candidate->milliseconds = once;
      if (once > kHopeless * best_ && once > 0.05f) return true;
      int repeats = std::clamp(static_cast<int>(2.0f / std::max(once, 1e-3f)), 1, 20);
      candidate->milliseconds =
          std::min(Average(*candidate->plan, repeats), Average(*candidate->plan, repeats));
      best_ = std::min(best_, candidate->milliseconds);
      return true;
    } catch (const Error&) {
      Recover();
      return false;
    }
  }

  float best() const { return best_; }

  bool RepeatsBitForBit(const PlanCandidate& candidate) {
    if (!Reserve(candidate.plan->workspace_bytes())) return false;
    uint64_t first = 0;
    for (int byte : {0x00, 0xff, 0x5a}) {
      Check(cudaMemsetAsync(workspace_->data(), byte, workspace_->bytes(), stream_),
            "trying plans");
      Check(cudaMemsetAsync(Output().data(), byte, Output().bytes(), stream_), "trying plans");
      Run(*candidate.plan);
      auto* hash = static_cast<uint64_t*>(hash_.data());
      kernels::ContentHash(Output().data(), Output().bytes(), hash, stream_);
      uint64_t now = 0;
      Check(cudaMemcpyAsync(&now, hash, sizeof(now), cudaMemcpyDeviceToHost, stream_),
            "trying plans");
      Check(cudaStreamSynchronize(stream_), "trying plans");
      if (byte == 0x00) first = now;
      if (now != first) return false;
    }
    return true;
  }

 private:
  size_t Bytes(int64_t elements) const {
    return static_cast<size_t>(elements) * DTypeSize(problem_.type);
  }
  const Scratch& Output() const {
    switch (problem_.kind) {
      case ConvKind::kForward:
        return y_;
      case ConvKind::kDataGrad:
        return x_;
      case ConvKind::kWeightGrad:
        break;
    }
    return w_;
  }
  bool Reserve(size_t bytes) {
    if (!workspace_ || workspace_->bytes() < bytes) {
      workspace_.reset();
      workspace_ = std::make_unique<Scratch>(bytes);
    }
    return workspace_->data() != nullptr;
  }
  void Run(ConvPlan& plan) {
    plan.Run({x_.data(), w_.data(), y_.data(), bias_.data()}, workspace_->data());
  }
  float Average(ConvPlan& plan, int repeats) {
    Check(cudaEventRecord(start_.get(), stream_), "trying plans");
    for (int i = 0; i < repeats; ++i) Run(plan);
    Check(cudaEventRecord(stop_.get(), stream_), "trying plans");
    Check(cudaEventSynchronize(stop_.get()), "trying plans");
    float total = 0;
    Check(cudaEventElapsedTime(&total, start_.get(), stop_.get()), "trying plans");
    return total / static_cast<float>(repeats);
  }
  // After a plan that failed: a lost device throws, anything else is forgotten.
  void Recover() {
    cudaGetLastError();
    Check(cudaStreamSynchronize(stream_), "trying plans");
  }

  ConvProblem problem_;
  cudaStream_t stream_;
  Scratch x_, w_, y_, bias_, hash_;
  std::unique_ptr<Scratch> workspace_;
  TimingEvent start_, stop_;
  float best_ = std::numeric_limits<float>::max();
};

// Runs the candidates; those that fail are dropped. Returns those that weren't worth running.
std::vector<PlanCandidate> TimeAll(const ConvProblem& problem, EngineRates* rates, Bench* bench,
                                   std::vector<PlanCandidate>* candidates, StopFlag stop) {
  std::vector<PlanCandidate> timed, hopeless;
  for (PlanCandidate& candidate : *candidates) {
    ThrowIfStopped(stop);
    if (rates->IsHopeless(problem, candidate.choice, bench->best())) {
      hopeless.push_back(std::move(candidate));
    } else if (bench->Time(&candidate)) {
      rates->Add(problem, candidate.choice, candidate.milliseconds);
      timed.push_back(std::move(candidate));
    }
  }
  *candidates = std::move(timed);
  return hopeless;
}

// The fastest that repeats, if it must, as `result`; false when none does.
bool TakeFastest(const ConvProblem& problem, std::vector<PlanCandidate> candidates, Bench* bench,
                 TunedPlan* result) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const PlanCandidate& a, const PlanCandidate& b) {
                     return a.milliseconds < b.milliseconds;
                   });
  for (const PlanCandidate& candidate : candidates) {
    if (problem.deterministic && !bench->RepeatsBitForBit(candidate)) {
      result->why = candidate.choice + " doesn't repeat bit for bit";
      continue;
    }
    result->plan = candidate.plan;
    result->choice = candidate.choice;
    result->milliseconds = candidate.milliseconds;
    result->measured = true;
    return true;
  }
  return false;
}

}  // namespace

TunedPlan FastestPlan(const ConvProblem& problem, MadePlans made, EngineRates* rates,
                      cudaStream_t stream, StopFlag stop) {
  TunedPlan result;
  result.why = std::move(made.why);
  auto start = std::chrono::steady_clock::now();
  Bench bench(problem, stream);
  if (!bench.Fits()) {
    // Then the step won't fit either, and the memory plan says so; it needs a workspace size.
    if (!made.candidates.empty()) {
      result.plan = made.candidates[0].plan;
      result.choice = made.candidates[0].choice;
    }
    return result;
  }
  bench.Fill();
  size_t known = made.candidates.size();
  std::vector<PlanCandidate> hopeless = TimeAll(problem, rates, &bench, &made.candidates, stop);
  size_t left_out = hopeless.size();
  if (!TakeFastest(problem, std::move(made.candidates), &bench, &result)) {
    std::erase_if(hopeless, [&](PlanCandidate& c) {
      ThrowIfStopped(stop);
      return !bench.Time(&c);
    });
    TakeFastest(problem, std::move(hopeless), &bench, &result);
    left_out = 0;
  }
  if (std::getenv("EXP_CUDA_TUNING") != nullptr) {
    fmt::print(stderr, "tuned {} = {} {:.4f} ms; {} plans run in {:.3f} s, {} not worth it\n",
               problem.Key(), result.choice, result.milliseconds, known - left_out,
               Seconds(std::chrono::steady_clock::now() - start), left_out);
  }
  return result;
}

bool TryPlan(const ConvProblem& problem, TunedPlan* plan, cudaStream_t stream) {
  Bench bench(problem, stream);
  if (!bench.Fits()) return false;
  bench.Fill();
  PlanCandidate candidate{plan->choice, plan->plan};
  if (!bench.Time(&candidate)) return false;
  if (problem.deterministic && !bench.RepeatsBitForBit(candidate)) return false;
  plan->milliseconds = candidate.milliseconds;
  plan->measured = true;
  return true;
}

}  // namespace xp::graph::cuda
