// How a command joins the program: one file `src/cli/<command>.cpp` with one function
// `void Add<Command>Command(Command app, Context& context)`, declared below and called in
// main.cpp. A command parses its flags, calls the library and prints; it throws xp::Error for what
// goes wrong.
#pragma once

#include <string>
#include <vector>

#include "src/cli/arguments.h"

namespace xp::cli {

// Shared by all commands of one invocation.
struct Context {
  int exit_code = 0;              // what main returns when no error was thrown
  bool recorded = false;          // what is printed is in the store too: it may stay unread
  std::vector<std::string> argv;  // as given, for the record
};

// keep-sorted
void AddAuditCommand(Command app, Context& context);
void AddBenchCommand(Command app, Context& context);
void AddCheckCommand(Command app, Context& context);
void AddCheckoutCommand(Command app, Context& context);
void AddConfigCommand(Command app, Context& context);
void AddDataCommand(Command app, Context& context);
void AddDiffCommand(Command app, Context& context);
void AddDoctorCommand(Command app, Context& context);
void AddEvalCommand(Command app, Context& context);
void AddExportCommand(Command app, Context& context);
void AddGcCommand(Command app, Context& context);
void AddImportCommand(Command app, Context& context);
void AddLogCommand(Command app, Context& context);
void AddLsCommand(Command app, Context& context);
void AddPredictCommand(Command app, Context& context);
void AddQueryCommand(Command app, Context& context);
void AddReplayCommand(Command app, Context& context);
void AddReproduceCommand(Command app, Context& context);
void AddResumeCommand(Command app, Context& context);
void AddRmCommand(Command app, Context& context);
void AddRunCommand(Command app, Context& context);
void AddShowCommand(Command app, Context& context);
void AddVerifyCommand(Command app, Context& context);
void AddWeightsCommand(Command app, Context& context);

}  // namespace xp::cli
