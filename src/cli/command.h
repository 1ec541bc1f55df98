// How a command joins the program: one file `src/cli/<command>.cpp` with one function
// `void Add<Command>Command(CLI::App& app, Context& context)`, declared below and called in
// main.cpp. A command parses its flags, calls the library and prints; it throws xp::Error for what
// goes wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace xp::cli {

// Shared by all commands of one invocation.
struct Context {
  int exit_code = 0;              // what main returns when no error was thrown
  std::vector<std::string> argv;  // as given, for the record
};

// keep-sorted
void AddAuditCommand(CLI::App& app, Context& context);
void AddBenchCommand(CLI::App& app, Context& context);
void AddCheckCommand(CLI::App& app, Context& context);
void AddCheckoutCommand(CLI::App& app, Context& context);
void AddConfigCommand(CLI::App& app, Context& context);
void AddDataCommand(CLI::App& app, Context& context);
void AddDiffCommand(CLI::App& app, Context& context);
void AddDoctorCommand(CLI::App& app, Context& context);
void AddEvalCommand(CLI::App& app, Context& context);
void AddExportCommand(CLI::App& app, Context& context);
void AddGcCommand(CLI::App& app, Context& context);
void AddImportCommand(CLI::App& app, Context& context);
void AddLogCommand(CLI::App& app, Context& context);
void AddLsCommand(CLI::App& app, Context& context);
void AddPredictCommand(CLI::App& app, Context& context);
void AddQueryCommand(CLI::App& app, Context& context);
void AddReplayCommand(CLI::App& app, Context& context);
void AddReproduceCommand(CLI::App& app, Context& context);
void AddResumeCommand(CLI::App& app, Context& context);
void AddRmCommand(CLI::App& app, Context& context);
void AddRunCommand(CLI::App& app, Context& context);
void AddShowCommand(CLI::App& app, Context& context);
void AddVerifyCommand(CLI::App& app, Context& context);
void AddWeightsCommand(CLI::App& app, Context& context);

}  // namespace xp::cli
