// The program: hands the command line to the command that it names and turns errors into exit
// codes.
#include <fmt/format.h>

#include <exception>

#include "exp/base/error.h"
#include "src/cli/command.h"
#include "src/cli/sleeping_threads.h"

namespace {

int Main(int argc, char** argv) {
  CLI::App app{"Trains vision models and can always say what produced a result.", "exp"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "exp " EXP_VERSION);
  xp::cli::Context context;
  context.argv.assign(argv, argv + argc);
  xp::cli::AddAuditCommand(app, context);
  xp::cli::AddBenchCommand(app, context);
  xp::cli::AddCheckCommand(app, context);
  xp::cli::AddCheckoutCommand(app, context);
  xp::cli::AddConfigCommand(app, context);
  xp::cli::AddDataCommand(app, context);
  xp::cli::AddDiffCommand(app, context);
  xp::cli::AddExportCommand(app, context);
  xp::cli::AddGcCommand(app, context);
  xp::cli::AddImportCommand(app, context);
  xp::cli::AddLogCommand(app, context);
  xp::cli::AddLsCommand(app, context);
  xp::cli::AddQueryCommand(app, context);
  xp::cli::AddReproduceCommand(app, context);
  xp::cli::AddRmCommand(app, context);
  xp::cli::AddRunCommand(app, context);
  xp::cli::AddShowCommand(app, context);
  xp::cli::AddVerifyCommand(app, context);
  xp::cli::AddWeightsCommand(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    app.exit(e);
    return static_cast<int>(xp::ErrorKind::kUsage);
  }
  return context.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  xp::cli::LetThreadsSleep(argc, argv);
  try {
    return Main(argc, argv);
  } catch (const xp::Error& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return e.exit_code();
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n  next: this is a fault of exp itself; please report it\n",
               e.what());
    return static_cast<int>(xp::ErrorKind::kJob);
  }
}
