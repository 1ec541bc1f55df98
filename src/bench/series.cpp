#include "exp/bench/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/bench/guarded.h"
#include "src/bench/time_bound.h"

namespace xp::bench {
namespace {

// The same for cases that differ in nothing but the batch.
std::string WithoutBatch(Case c) {
  c.batch = 0;
  c.largest = false;
  return c.device + " " + Key(c);
}

Row Answered(const Case& c, Status status, const std::string& reason) {
  Row row;
  row.c = c;
  row.status = status;
  row.reason = reason;
  row.measured_ns = NowNs();
  return row;
}

}  // namespace

StepSeries::StepSeries(StopFlag stop)
    : StepSeries([stop](const Case& c) { return MeasureSteps(c, stop); }, LargestBatch) {}

StepSeries::StepSeries(Measurement measure, std::function<int(const Case&, int)> largest)
    : measure_(std::move(measure)), largest_(std::move(largest)) {}

Row StepSeries::Keep(Row row) {
  rows_.push_back(row);
  return row;
}

std::optional<Row> StepSeries::SameComputation(const Case& c,
                                               const ComputedPrecision& computed) const {
  if (computed.precision == c.precision) return std::nullopt;
  Case same = c;
  same.precision = computed.precision;
  for (const Row& r : rows_) {
    if (r.c.device != c.device || Key(r.c) != Key(same)) continue;
    Row row = r;
    std::string why = r.status == Status::kOk ? "" : "; " + r.reason;
    row.reason = computed.note + "; measured once, above" + why;
    return row;
  }
  return std::nullopt;
}

std::optional<Row> StepSeries::DoesNotFit(const Case& c) const {
  for (const Row& r : rows_) {
    bool smaller = r.c.batch <= c.batch && WithoutBatch(r.c) == WithoutBatch(c);
    if (!smaller || r.status != Status::kMemoryLimit) continue;
    return Answered(c, Status::kMemoryLimit,
                    fmt::format("batch {} doesn't fit already", r.c.batch));
  }
  return std::nullopt;
}

std::optional<Row> StepSeries::TakesTooLong(const Case& c) const {
  if (c.seconds_a_case <= 0) return std::nullopt;
  double an_image = std::numeric_limits<double>::infinity();
  for (const Row& r : rows_) {
    if (r.c.batch > c.batch || WithoutBatch(r.c) != WithoutBatch(c)) continue;
    if (r.status == Status::kTimeLimit) {
      return Answered(c, Status::kTimeLimit,
                      fmt::format("batch {} takes too long already", r.c.batch));
    }
    if (r.status == Status::kOk) an_image = std::min(an_image, r.milliseconds * 1e-3 / r.c.batch);
  }
  const double step = an_image * c.batch;
  if (std::isinf(step) || step <= c.seconds_a_case) return std::nullopt;
  return Answered(
      c, Status::kTimeLimit,
      fmt::format("not measured: one step would take {}, at {} an image as with "
                  "smaller batches; the bound is {} a case",
                  SecondsText(step), SecondsText(an_image), SecondsText(c.seconds_a_case)));
}

Row StepSeries::Measure(const Case& asked) {
  const ComputedPrecision computed = PrecisionOf(asked);
  if (auto row = SameComputation(asked, computed)) return Keep(*row);
  Case c = asked;
  c.precision = computed.precision;
  if (auto row = DoesNotFit(c)) return Keep(*row);
  if (auto row = TakesTooLong(c)) return Keep(*row);
  Row row = measure_(asked);
  row.c.precision = computed.precision;  // also of one that came to no measurement
  return Keep(row);
}

Row StepSeries::MeasureLargest(Case c, int limit) {
  c.largest = true;
  const ComputedPrecision computed = PrecisionOf(c);
  if (auto row = SameComputation(c, computed)) return Keep(*row);
  Row row;
  row.c = c;
  Guarded(&row, [&] { row = LargestThatFits(c, computed.precision, limit); });
  row.c.precision = computed.precision;
  return Keep(row);
}

Row StepSeries::LargestThatFits(Case c, const std::string& computed, int limit) {
  constexpr int kTries = 8;
  Row row;
  for (int i = 1; i <= kTries; ++i) {
    // Anew each time: what a try leaves behind, or another program takes, isn't free any more.
    const int planned = largest_(c, limit);
    if (planned == 0) {
      c.batch = 1;
      return Answered(c, Status::kMemoryLimit, "not even one image fits");
    }
    c.batch = planned;
    Case as_computed = c;
    as_computed.precision = computed;
    if (auto known = TakesTooLong(as_computed)) return *known;
    row = measure_(c);
    if (row.status != Status::kMemoryLimit || c.batch == 1) break;
    limit = c.batch - std::max(1, c.batch * 3 * i / 100);  // the further away, the faster
  }
  return row;
}

}  // namespace xp::bench
