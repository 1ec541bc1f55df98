// The options by which `exp eval` and `exp predict` are pointed at a model.
#pragma once

#include "src/cli/arguments.h"
#include "src/cli/model_source.h"

namespace xp::cli {

// --config, --set, --checkpoint and --store; the target is the command's own.
void AddModelFlags(Command command, ModelRequest& request);

// Throws UsageError for a --min-score that is no number.
void CheckMinScore(double score);

}  // namespace xp::cli
