// What can be said about a config before any data is read, any device opened and any step taken.
#pragma once

#include <vector>

#include "exp/config/check.h"

namespace xp::train {

// Reads the whole config as a run would and builds the model's parameters from it, in memory for
// their names and shapes only. Errors are what a run would refuse, under the rules "model",
// "optimizer" (with its schedule and parameter groups), "data" (how it is loaded, not what the
// files hold), "run" (checkpoints, evaluation, non_finite) and "weights" (`load_from`, `reset`,
// `init_cfg`: the layers of files that are there). Warnings are keys that nothing reads
// ("unused-key"), and parameter groups without effect ("param-groups").
std::vector<config::Finding> CheckConfig(const config::Node& root);

// Throws the first of these errors as the run would. Who resumes doesn't read first weights.
void RequireTrainable(const config::Node& root, bool first_weights);

}  // namespace xp::train
