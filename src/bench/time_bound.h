// Keeps a case within the seconds that its matrix gives it (`seconds_a_case`); private to
// src/bench.
#pragma once

#include <string>

#include "exp/base/error.h"
#include "exp/base/stopwatch.h"

namespace xp::bench {

// A case that can't be measured within its bound: Guarded makes Status::kTimeLimit of it.
class TimeLimit : public Error {
 public:
  TimeLimit(double step, const std::string& reason)
      : Error(ErrorKind::kJob, {.what = reason}), step_(step) {}
  double step() const { return step_; }  // seconds that were measured

 private:
  double step_;
};

class TimeBound {
 public:
  // Begins now. 0 seconds: there is no bound.
  explicit TimeBound(double seconds) : seconds_(seconds) {}

  // Throws TimeLimit where `rest` seconds more would end behind the bound. `found` says how the
  // measured `step` comes to that rest.
  void Require(double step, double rest, const std::string& found) const;
  // Seconds; infinite without a bound, below 0 behind it.
  double Left() const;

 private:
  double seconds_;
  Stopwatch watch_;
};

// "3.21 s", "0.045 s": three digits, for reasons.
std::string SecondsText(double seconds);

}  // namespace xp::bench
