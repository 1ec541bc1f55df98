// Whole steps on data that lies on the device.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exp/base/stopwatch.h"
#include "exp/bench/throughput.h"
#include "src/bench/guarded.h"
#include "src/bench/into_row.h"
#include "src/bench/time_bound.h"
#include "src/bench/trial.h"

namespace xp::bench {
namespace {

double Window(Trial& trial, int steps, StopFlag stop) {
  Stopwatch watch;
  for (int i = 0; i < steps; ++i) {
    ThrowIfStopped(stop);
    trial.Start();
  }
  trial.Wait();
  return watch.Seconds() / steps;
}

int StepsIn(double seconds, double step) {
  return std::max(1, static_cast<int>(seconds / std::max(step, 1e-6)));
}

int Repeats(const Case& c) { return std::max(1, c.repeats); }

double SecondsOfRepeats(const Case& c, double step) {
  return Repeats(c) * StepsIn(c.seconds_a_repeat, step) * step;
}

// What is left of the warm-up behind the first step, which tells little: it makes ready what later
// ones find. The second one shows whether the case can be measured within its bound.
double WarmUp(Trial& trial, const Case& c, const TimeBound& bound, StopFlag stop) {
  const double step = Window(trial, 1, stop);
  const int more = std::max(0, c.warmup - 2);
  const double rest = more * step + SecondsOfRepeats(c, step);
  bound.Require(step, rest,
                fmt::format("a step takes {}, {} more to warm up and {} repeats at least {}",
                            SecondsText(step), more, Repeats(c), SecondsText(rest)));
  return more > 0 ? Window(trial, more, stop) : step;
}

// Until two windows in a row agree within 2 %.
double Settle(Trial& trial, const Case& c, double step, const TimeBound& bound, StopFlag stop) {
  Stopwatch watch;
  const double longest = std::min(c.settle_seconds, bound.Left() - SecondsOfRepeats(c, step));
  double before = step;
  while (watch.Seconds() < longest) {
    double now = Window(trial, StepsIn(0.25 * c.seconds_a_repeat, before), stop);
    bool steady = std::abs(now - before) < 0.02 * before;
    before = now;
    if (steady) break;
  }
  return before;
}

void Measure(const Case& c, StopFlag stop, Row* row) {
  Stopwatch watch;
  Trial trial(c, stop);
  row->device = trial.device();
  row->c.precision = trial.precision();
  row->reason = trial.precision_note();
  row->bytes = trial.bytes();
  TimeBound bound(c.seconds_a_case);
  const double first = Window(trial, 1, stop);
  row->setup_seconds = watch.Seconds();
  bound.Require(first, 0, fmt::format("the first step took {}", SecondsText(first)));
  const double step = Settle(trial, c, WarmUp(trial, c, bound, stop), bound, stop);
  row->steps_a_repeat = StepsIn(c.seconds_a_repeat, step);
  std::vector<double> times;
  times.reserve(static_cast<size_t>(Repeats(c)));
  PowerMeter meter(train::CudaNumber(c.device));
  for (int i = 0; i < Repeats(c); ++i) times.push_back(Window(trial, row->steps_a_repeat, stop));
  PutPower(meter.Stop(), row);
  PutWindows(times, row);
  PutLoss(trial.Loss(), row);
  Work work = trial.work();
  row->flop = work.flop;
  row->moved_bytes = work.bytes;
  if (c.profile) row->profile = trial.Profile();
}

// By the plan alone: what is left after the workspaces only a measurement tells (`largest_batch`).
void AddWhatFits(Row* row) {
  try {
    int batch = LargestBatch(row->c, row->c.batch - 1);
    row->reason +=
        batch > 0 ? fmt::format("; the plan of batch {} fits", batch) : "; not even one image fits";
  } catch (const std::exception&) {  // the device is gone, too
  }
}

}  // namespace

Windows JudgeWindows(std::vector<double> seconds) {
  Windows out;
  std::sort(seconds.begin(), seconds.end());
  auto median = [](const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; };
  double middle = median(seconds);
  std::vector<double> deviations;
  deviations.reserve(seconds.size());
  for (double s : seconds) deviations.push_back(std::abs(s - middle));
  std::sort(deviations.begin(), deviations.end());
  double limit = std::max(1.1 * middle, middle + 5 * median(deviations));
  size_t most = seconds.size() / 3;
  while (static_cast<size_t>(out.outliers) < most && seconds.back() > limit) {
    seconds.pop_back();
    ++out.outliers;
  }
  out.median = median(seconds);
  out.kept = std::move(seconds);
  return out;
}

Row MeasureSteps(const Case& c, StopFlag stop) {
  Row row;
  row.c = c;
  Guarded(&row, [&] { Measure(c, stop, &row); });
  if (row.status == Status::kMemoryLimit && !c.largest) AddWhatFits(&row);
  return row;
}

ComputedPrecision PrecisionOf(const Case& c) {
  train::OpenedDevice device = train::PrecisionOn(c.device, c.precision);
  return {device.precision, device.precision_note};
}

void CompareWithSpeeds(const DeviceSpeeds& speeds, Row* row) {
  double seconds = row->milliseconds * 1e-3;
  if (seconds <= 0) return;
  if (speeds.matrix_flop_a_second > 0) {
    row->matrix_share = row->flop / seconds / speeds.matrix_flop_a_second;
  }
  if (speeds.copy_bytes_a_second > 0) {
    row->copy_share = row->moved_bytes / seconds / speeds.copy_bytes_a_second;
  }
}

DeviceSpeeds SpeedsFor(const Case& c) {
  Case captured = c;
  captured.captured = true;
  try {
    train::OpenedDevice device = OpenBackend(captured);
    return MeasureSpeeds(*device.backend, device.compute);
  } catch (const std::exception&) {  // the case has run, but another program took the memory since
    return {};
  }
}

uint64_t LeastBytes(const Case& c, graph::DType compute, const graph::StepPasses& passes) {
  train::OptimizerOptions optimizer;
  return PlannedBytes(*BuildTrialGraph(c, compute, optimizer).graph, optimizer, passes);
}

int LargestBatch(const Case& given, int limit) {
  constexpr double kShare = 0.97;  // the rest is left to workspaces
  constexpr int kMultiple = 8;     // batches of odd sizes have slow plans
  Case c = given;
  graph::DType compute = graph::DType::kF32;
  uint64_t free_bytes = 0;
  graph::StepPasses passes;
  {
    train::OpenedDevice device = OpenBackend(c);
    compute = device.compute;
    free_bytes =
        static_cast<uint64_t>(kShare * static_cast<double>(device.backend->Memory().free_bytes));
    passes = device.backend->step_passes();
  }
  auto fits = [&](int batch) {
    c.batch = batch;
    return LeastBytes(c, compute, passes) <= free_bytes;
  };
  int low = 0, high = 1;
  while (high <= limit && fits(high)) low = high, high *= 2;
  high = std::min(high, limit + 1);
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low >= 2 * kMultiple && low < limit ? low / kMultiple * kMultiple : low;
}

}  // namespace xp::bench
