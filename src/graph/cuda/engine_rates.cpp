#include "src/graph/cuda/engine_rates.h"

#include <algorithm>

namespace xp::graph::cuda {
namespace {

// Shorter runs say more of launches than of the engine.
constexpr float kShortest = 1.0f;
constexpr int kEnoughProblems = 2;
// What is cheap to try is tried. With these figures no winner was lost among 270 searches of
// Faster R-CNN on an H200, in the network's order and in 16 others.
constexpr double kCheap = 20.0;
constexpr double kHopeless = 8.0;

double Flops(const ConvProblem& p) {
  return 2.0 * static_cast<double>(p.n * p.p * p.q) * static_cast<double>(p.w_elements());
}

}  // namespace

EngineRates::Engine EngineRates::EngineOf(const ConvProblem& problem, const std::string& choice) {
  std::string engine = choice.substr(choice.find(':') + 1);
  return {problem.kind, problem.type, problem.tf32, engine.substr(0, engine.find('_'))};
}

void EngineRates::Add(const ConvProblem& problem, const std::string& choice, float milliseconds) {
  if (milliseconds < kShortest) return;
  Rate& rate = rates_[EngineOf(problem, choice)];
  rate.flops_per_millisecond =
      std::max(rate.flops_per_millisecond, Flops(problem) / static_cast<double>(milliseconds));
  ++rate.problems;
}

bool EngineRates::IsHopeless(const ConvProblem& problem, const std::string& choice,
                             float best_milliseconds) const {
  auto found = rates_.find(EngineOf(problem, choice));
  if (found == rates_.end() || found->second.problems < kEnoughProblems) return false;
  double expected = Flops(problem) / found->second.flops_per_millisecond;
  return expected > kCheap && expected > kHopeless * static_cast<double>(best_milliseconds);
}

}  // namespace xp::graph::cuda
