#include "src/cli/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>

#include "exp/base/error.h"
#include "exp/base/printable.h"

namespace xp::cli {
namespace {

int Parse(int argc, char** argv, void (*add)(Command app, Context& context)) {
  CLI::App app{"Trains vision models and can always say what produced a result.", "exp"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "exp " EXP_VERSION);
  Context context;
  context.argv.assign(argv, argv + argc);
  add(Command(&app), context);
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
    return static_cast<int>(ErrorKind::kUsage);
  }
  return context.exit_code;
}

}  // namespace

int RunApp(int argc, char** argv, void (*add)(Command app, Context& context)) {
  try {
    return Parse(argc, argv, add);
  } catch (const Error& e) {
    fmt::print(stderr, "error: {}\n", Printable(e.what(), true));
    return e.exit_code();
  } catch (const std::exception& e) {
    std::error_code gone;
    static_cast<void>(std::filesystem::current_path(gone));
    if (gone) {  // nearly every command asks for it
      fmt::print(stderr, "error: the working directory is gone: {}\n  next: `cd` to one\n",
                 gone.message());
      return static_cast<int>(ErrorKind::kUsage);
    }
    fmt::print(stderr, "error: {}\n  next: this is a fault of exp itself; please report it\n",
               Printable(e.what(), true));
    return static_cast<int>(ErrorKind::kJob);
  }
}

}  // namespace xp::cli
