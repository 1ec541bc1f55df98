// Are the numbers that two runs recorded the same, epoch by epoch and step by step? Private to
// src/record.
#pragma once

#include "exp/record/verdict.h"

namespace xp::record {

// Elapsed times and what the machine felt like differ between equal runs: "time/step",
// "gpu/0/watts", "train/iter_time".
bool IsTiming(const std::string& name);

// Fills `epochs`, `step` and `steps_compared`; returns how many epochs the second run should have
// had. What must be there, and what may:
// - `max_epochs` >= 0: the first epochs of both, and the steps in them
// - the first run is finished: everything that either has
// - else the second one went on behind where the first ended: everything that the first has
size_t CompareNumbers(const Run& first, const Run& second, const Curves& first_curves,
                      const Curves& second_curves, int max_epochs, Verdict& out);

}  // namespace xp::record
