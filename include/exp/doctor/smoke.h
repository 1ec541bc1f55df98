// Small computations on a device, compared with the CPU and with themselves.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exp/base/error.h"
#include "exp/base/stop.h"
#include "exp/doctor/finding.h"
#include "exp/graph/backend.h"

namespace xp::doctor {

// Convolution, batch norm, RoIAlign, NMS, top-k, matrix product and a few whole training steps on
// `device`, each twice for the same bits, against `reference`. Ids: smoke.conv, ...
Findings SmokeTests(graph::Backend& device, graph::Backend& reference,
                    const std::function<void(const Finding&)>& on_finding);

// The row of a device that doesn't open: what its backend threw.
Finding DoesNotOpen(const Error& error);

// What TF32 changes: a product in it and one in true fp32, against the CPU's. `make` opens the GPU
// with tensor cores for fp32 (TF32) or without.
Finding Tf32Error(const std::function<std::unique_ptr<graph::Backend>(bool tf32)>& make);

// Some training steps of a small network (convolutions, batch norm, pooling, a linear layer, SGD).
struct SmallTraining {
  std::vector<double> losses;  // a step
  std::string hash;            // of all parameters afterwards
};
SmallTraining TrainSmall(graph::Backend& backend, int steps);

// `argv` starts this program so that it calls Rendezvous(): once alone, then twice at once. The
// hashes must be equal. Throws Error of kind kInterrupted when it is stopped; the processes end
// then.
Finding TwoProcesses(const std::vector<std::string>& argv, StopFlag stop = nullptr);
// The child's side: says that it is ready, waits for the word, computes, prints the hash.
void Rendezvous(const std::function<std::string()>& compute);

}  // namespace xp::doctor
