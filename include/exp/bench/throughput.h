// How fast a model trains: whole steps (forward, losses, backward, SGD) on data that lies on the
// device, so that loading doesn't count; and the loader, and training from JPEGs.
//
// A case is set up, stepped `warmup` times, then stepped until two windows in a row differ by less
// than 2 % or `settle_seconds` have passed, so that clocks and temperature are steady. Then
// `repeats` windows of about `seconds_a_repeat` are timed, each ending with a wait for the device.
// A window that is slower than the median by more than 10 % and by more than five times the median
// deviation is an outlier and left out, at most a third of them; the median of the rest counts.
//
// With `seconds_a_case` a case whose first two steps show that all this takes longer is a row
// "time lim" with the time of a step. The clock starts before the first step: the search of cuDNN's
// plans doesn't count. Waiting for steady clocks is cut short where the bound asks for it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exp/base/stop.h"
#include "exp/bench/matrix.h"
#include "exp/bench/row.h"
#include "exp/bench/speeds.h"

namespace xp::bench {

// `stop` is looked at between steps, batches and lines of the peer. A measurement that is stopped
// throws Error of kind kInterrupted.

// Never throws for what a case does: a case that can't run is a row with its reason. Of one that
// doesn't fit the reason also names the largest batch that would.
Row MeasureSteps(const Case& c, StopFlag stop = nullptr);
// What a case's device computes in: the case's precision, or another one and a note why.
struct ComputedPrecision {
  std::string precision, note;
};
ComputedPrecision PrecisionOf(const Case& c);
// Fills matrix_share and copy_share from a device's speeds.
void CompareWithSpeeds(const DeviceSpeeds& speeds, Row* row);

// The speeds of a case's device in its precision; 0 where they can't be measured.
DeviceSpeeds SpeedsFor(const Case& c);

// At least so many bytes does a step need on the device, from the plan alone; `passes`: the
// device's rewrites of the step.
uint64_t LeastBytes(const Case& c, graph::DType compute, const graph::StepPasses& passes = {});
// The largest batch whose plan, without workspaces, fits into 97 % of the free memory of the case's
// device, at most `limit`, above 16 a multiple of 8; 0: none. The row of that batch decides.
int LargestBatch(const Case& c, int limit);

// JPEGs for the loader: those below a folder, or drawn ones in a temporary folder. They are looked
// for, or drawn, when the first row wants them; where there are none the row says why.
class Photos;
std::shared_ptr<Photos> OpenPhotos(const LoaderPart& part);
Row MeasureLoader(const Case& c, const LoaderPart& part, Photos& photos, StopFlag stop = nullptr);
Row MeasureEndToEnd(const Case& c, const EndToEndPart& part, Photos& photos,
                    StopFlag stop = nullptr);

// The windows that count, and how many were left out: the rule above. Seconds a step.
struct Windows {
  std::vector<double> kept;  // sorted
  int outliers = 0;
  double median = 0;
};
Windows JudgeWindows(std::vector<double> seconds);

// The same cases in PyTorch, by a script that is part of this program, in one process of `python`;
// after a case that ended it in another one. `on_row` is called as they come; rows "fail" with the
// reason where PyTorch isn't there.
void MeasureTorch(const std::string& python, const std::vector<Case>& cases,
                  const std::function<void(const Row&)>& on_row, StopFlag stop = nullptr);

}  // namespace xp::bench
