#include "src/cli/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "exp/base/error.h"
#include "exp/base/printable.h"
#include "src/cli/tell.h"

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
    app.parse(ForParser(argc, argv));
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

constexpr const char* kLimitsAdvice =
    "`exp doctor --look` tells the limits of memory, threads, files and disks";

// What the system refused: a thread, a file, an output that takes no more.
const char* Advice(const std::error_code& code) {
  if (code == std::errc::no_space_on_device) return "free space on the disk";
  if (code == std::errc::file_too_large) return "raise the limit of file sizes (`ulimit -f`)";
  if (code == std::errc::permission_denied || code == std::errc::read_only_file_system ||
      code == std::errc::operation_not_permitted) {
    return "choose a place that this user may write and read";
  }
  return kLimitsAdvice;
}

}  // namespace

int RunApp(int argc, char** argv, void (*add)(Command app, Context& context)) {
  // A write beyond `ulimit -f` is an error that can be told, not the end of the program.
  ::signal(SIGXFSZ, SIG_IGN);
  try {
    int code = Parse(argc, argv, add);
    // Else a full disk or a limit of file sizes would swallow a result that is redirected.
    // Who reads no further (`| head`) has what was wanted.
    if (std::fflush(stdout) != 0 && errno != EBADF && errno != EPIPE) {
      throw std::system_error(errno, std::generic_category(), "the output can't be written");
    }
    return code;
  } catch (const Error& e) {
    Tell("error: {}\n", Printable(e.what(), true));
    return e.exit_code();
  } catch (const std::bad_alloc&) {
    Tell("error: memory can't be had\n  next: {}\n", kLimitsAdvice);
    return static_cast<int>(ErrorKind::kJob);
  } catch (const std::exception& e) {
    std::error_code gone;
    static_cast<void>(std::filesystem::current_path(gone));
    if (gone) {  // nearly every command asks for it
      Tell("error: the working directory is gone: {}\n  next: `cd` to one\n", gone.message());
      return static_cast<int>(ErrorKind::kUsage);
    }
    const auto* system = dynamic_cast<const std::system_error*>(&e);
    if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
      Tell(
          "error: a thread or process can't be started: {}\n  next: raise `ulimit -u` or the "
          "container's limit of processes; {}\n",
          system->code().message(), kLimitsAdvice);
      return static_cast<int>(ErrorKind::kJob);
    }
    Tell("error: {}\n  next: {}\n", Printable(e.what(), true),
         system != nullptr ? Advice(system->code())
                           : "this is a fault of exp itself; please report it");
    return static_cast<int>(ErrorKind::kJob);
  }
}

}  // namespace xp::cli
