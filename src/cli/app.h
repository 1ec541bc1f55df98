// What both programs of exp share: parses the command line, runs the command that it names, and
// turns errors into messages and exit codes.
#pragma once

#include "src/cli/command.h"

namespace xp::cli {

// `add` registers the commands. Returns the process's exit code.
int RunApp(int argc, char** argv, void (*add)(Command app, Context& context));

}  // namespace xp::cli
