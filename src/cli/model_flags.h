// The options by which `exp eval` and `exp predict` are pointed at a model.
#pragma once

#include "src/cli/arguments.h"
#include "src/cli/model_source.h"

namespace xp::cli {

// --config, --set, --checkpoint and --store; the target is the command's own.
void AddModelFlags(Command command, ModelRequest& request);

}  // namespace xp::cli
