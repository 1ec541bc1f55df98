// The steps of a matrix's cases, one after the other: what the rows before tell of a case isn't
// measured once more.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exp/bench/row.h"
#include "exp/bench/throughput.h"

namespace xp::bench {

class StepSeries {
 public:
  using Measurement = std::function<Row(const Case&)>;

  explicit StepSeries(StopFlag stop);
  // With other measurements than MeasureSteps and LargestBatch: for tests.
  StepSeries(Measurement measure, std::function<int(const Case&, int limit)> largest);

  // The row of a case. It is measured unless it is known to come to the same as a row above (a CPU
  // computes tf32 in fp32), not to fit (a smaller batch doesn't) or to take longer than its bound
  // (a smaller batch does; or one step of it alone would, at the fastest seconds an image so far).
  // Throws Error of kind kInterrupted, nothing else.
  Row Measure(const Case& c);
  // The largest batch of the case that fits, at most `limit`: that of LargestBatch, and where it
  // doesn't fit after all, that of LargestBatch at least 3 %, then 6 %, 9 % ... below, until one
  // does. Within the same bound: a batch that is known to take longer is a row that says so.
  Row MeasureLargest(Case c, int limit);
  // What an earlier attempt measured tells of other cases as well.
  void Know(const Row& row) { rows_.push_back(row); }

 private:
  std::optional<Row> SameComputation(const Case& c, const ComputedPrecision& computed) const;
  std::optional<Row> DoesNotFit(const Case& c) const;
  std::optional<Row> TakesTooLong(const Case& c) const;
  Row LargestThatFits(Case c, const std::string& computed, int limit);
  Row Keep(Row row);

  Measurement measure_;
  std::function<int(const Case&, int)> largest_;
  std::vector<Row> rows_;
};

}  // namespace xp::bench
