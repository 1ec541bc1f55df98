// Whole steps on data that lies on the device.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exp/base/error.h"
#include "exp/base/stopwatch.h"
#include "exp/bench/throughput.h"
#include "src/bench/guarded.h"
#include "src/bench/into_row.h"
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

// Until two windows in a row agree within 2 %.
double Settle(Trial& trial, const Case& c, double step, StopFlag stop) {
  Stopwatch watch;
  double before = step;
  while (watch.Seconds() < c.settle_seconds) {
    int steps = std::max(1, static_cast<int>(0.25 * c.seconds_a_repeat / std::max(before, 1e-6)));
    double now = Window(trial, steps, stop);
    bool steady = std::abs(now - before) < 0.02 * before;
    before = now;
    if (steady) break;
  }
  return before;
}

void Measure(const Case& c, StopFlag stop, Row* row) {
  Stopwatch watch;
  Trial trial(c);
  row->device = trial.device();
  row->c.precision = trial.precision();
  row->reason = trial.precision_note();
  row->bytes = trial.bytes();
  Window(trial, 1, stop);
  row->setup_seconds = watch.Seconds();
  double step = Window(trial, std::max(1, c.warmup - 1), stop);
  step = Settle(trial, c, step, stop);
  row->steps_a_repeat = std::max(1, static_cast<int>(c.seconds_a_repeat / std::max(step, 1e-6)));
  std::vector<double> times;
  times.reserve(static_cast<size_t>(std::max(1, c.repeats)));
  PowerMeter meter(train::CudaNumber(c.device));
  for (int i = 0; i < std::max(1, c.repeats); ++i) {
    times.push_back(Window(trial, row->steps_a_repeat, stop));
  }
  PutPower(meter.Stop(), row);
  PutWindows(times, row);
  row->loss = trial.Loss();
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

Row MeasureLargest(Case c, int limit, StopFlag stop) {
  c.largest = true;
  Row row;
  row.c = c;
  Guarded(&row, [&] {
    c.batch = LargestBatch(c, limit);
    row.c = c;
    if (c.batch == 0) throw JobError({.what = "mem lim: not even one image fits"});
  });
  if (row.status != Status::kOk) return row;
  for (int tries = 0; tries < 8; ++tries) {
    row = MeasureSteps(c, stop);
    if (row.status != Status::kMemoryLimit || c.batch == 1) break;
    c.batch -= std::max(1, c.batch * 3 / 100);
  }
  return row;
}

}  // namespace xp::bench
