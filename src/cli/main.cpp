// The program with all of its commands, `exp-commands`; `exp` (front/main.cpp) hands over to it.
#include "src/cli/app.h"
#include "src/cli/sleeping_threads.h"

namespace xp::cli {
namespace {

void AddCommands(Command app, Context& context) {
  AddAuditCommand(app, context);
  AddBenchCommand(app, context);
  AddCheckCommand(app, context);
  AddCheckoutCommand(app, context);
  AddConfigCommand(app, context);
  AddDataCommand(app, context);
  AddDiffCommand(app, context);
  AddDoctorCommand(app, context);
  AddEvalCommand(app, context);
  AddExportCommand(app, context);
  AddGcCommand(app, context);
  AddImportCommand(app, context);
  AddLogCommand(app, context);
  AddLsCommand(app, context);
  AddPredictCommand(app, context);
  AddQueryCommand(app, context);
  AddReplayCommand(app, context);
  AddReproduceCommand(app, context);
  AddResumeCommand(app, context);
  AddRmCommand(app, context);
  AddRunCommand(app, context);
  AddShowCommand(app, context);
  AddVerifyCommand(app, context);
  AddWeightsCommand(app, context);
}

}  // namespace
}  // namespace xp::cli

int main(int argc, char** argv) {
  xp::cli::LetThreadsSleep(argc, argv);
  return xp::cli::RunApp(argc, argv, xp::cli::AddCommands);
}
