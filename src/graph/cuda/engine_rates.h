// What each of cuDNN's engines came to on the problems tried so far, so that one that is hundreds
// of times slower than another needn't be run on every problem: a naive engine that is always
// proposed took 40 of the 51 seconds that Faster R-CNN's plans needed at batch 4 in tf32.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "src/graph/cuda/conv_problem.h"

namespace xp::graph::cuda {

class EngineRates {
 public:
  // Of a plan that ran. `choice`: "<variant>:<engine>", with the engine's knobs or without.
  void Add(const ConvProblem& problem, const std::string& choice, float milliseconds);

  // Whether trying a plan isn't worth its time beside one of `best_milliseconds`: at the best rate
  // that its engine came to, on two problems of this kind and type or more, it would take over 20
  // ms and eight times as long.
  bool IsHopeless(const ConvProblem& problem, const std::string& choice,
                  float best_milliseconds) const;

 private:
  using Engine = std::tuple<ConvKind, DType, bool, std::string>;  // kind, type, tf32, engine
  struct Rate {
    double flops_per_millisecond = 0;  // the best
    int problems = 0;
  };
  static Engine EngineOf(const ConvProblem& problem, const std::string& choice);

  std::map<Engine, Rate> rates_;
};

}  // namespace xp::graph::cuda
