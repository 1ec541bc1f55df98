#include "src/cli/app.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "exp/base/error.h"
#include "exp/base/printable.h"
#include "exp/base/system_advice.h"
#include "src/cli/tell.h"
#include "src/config/suggest.h"

namespace xp::cli {
namespace {

// The command that was asked for, as far as it was understood: "exp data check".
const CLI::App* Asked(const CLI::App* app, std::string* command) {
  *command = app->get_name();
  for (std::vector<const CLI::App*> below{app}; !below.empty();) {
    app = below.front();
    if (app->get_parent() != nullptr) *command += " " + app->get_name();
    const std::vector<CLI::App*> parsed = const_cast<CLI::App*>(app)->get_subcommands();
    below.assign(parsed.begin(), parsed.end());
  }
  return app;
}

// What a person may have meant by a word that nothing is called: a command or an option of `app`.
std::string Meant(const CLI::App* app, const std::string& word) {
  std::vector<std::string> names;
  if (!word.starts_with('-') && word.find('=') != word.npos &&
      app->get_option_no_throw("--set") != nullptr) {
    return fmt::format("`--set {}`: each change behind a --set of its own;", word);
  }
  if (word.starts_with('-')) {
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  } else {
    for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(command->get_name());
  }
  return config::DidYouMean(config::Nearest(word.substr(0, word.find('=')), names));
}

std::string UsageText(const CLI::App* root, const CLI::Error& e) {
  std::string command, what = e.what(), meant;
  const CLI::App* app = Asked(root, &command);
  const std::vector<std::string> extras = root->remaining(true);
  if (dynamic_cast<const CLI::RequiredError*>(&e) != nullptr &&
      what.find("ubcommand") != what.npos) {
    what = extras.empty() ? "a command is missing"
                          : fmt::format("there is no command `{}`", extras.front());
    if (!extras.empty()) meant = Meant(app, extras.front());
  } else if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr && !extras.empty()) {
    what = fmt::format("nothing is called `{}`", fmt::join(extras, "`, `"));
    meant = Meant(app, extras.front());
  }
  constexpr std::string_view kTwice = ": At Most 1 required but received ";
  if (const size_t at = what.find(kTwice); at != what.npos)
    what = fmt::format("{} is given {} times", what.substr(0, at), what.substr(at + kTwice.size()));
  return fmt::format("error: {}\n  next: {}{}`{} --help`\n", Printable(what), meant,
                     meant.empty() ? "" : " ", command);
}

// A descriptor of the three that is closed would be given to the next file that is opened, a
// checkpoint or the store, and what is printed be written into it. Held by one that can't be used
// in that direction, it stays as good as closed.
void HoldClosedStreams() {
  constexpr int kUnusable[] = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    int held = ::open("/dev/null", kUnusable[fd]);  // the lowest that is free: this one
    if (held < 0) held = ::open("/", O_PATH);
    if (held > STDERR_FILENO) ::close(held);
  }
}

// Was standard output closed when the program started?
bool OutputClosed() {
  const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
  return flags < 0 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_RDONLY;
}

// Does nobody read standard output any more (`| head`)? Then what was wanted was read.
bool ReaderGone() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

// Else a full disk, a limit of file sizes or a closed descriptor would swallow a result.
void FlushOutput(const Context& context) {
  const bool lost_now = std::fflush(stdout) != 0;
  int why = errno;
  if ((!lost_now && std::ferror(stdout) == 0) || ReaderGone()) return;
  if (OutputClosed()) {
    if (context.recorded) return;
    why = EBADF;
  } else if (!lost_now && lost_output != 0) {
    why = lost_output;
  } else if (!lost_now) {
    throw JobError({.what = "a part of the output couldn't be written",
                    .where = "standard output",
                    .next = "free space on the disk, or name a file elsewhere"});
  }
  throw std::system_error(why, std::generic_category(), "the output can't be written");
}

int Parse(int argc, char** argv, void (*add)(Command app, Context& context)) {
  CLI::App app{"Trains vision models and can always say what produced a result.", "exp"};
  app.require_subcommand(1);
  app.footer("`exp help COMMAND` tells what a command takes, with an example.");
  app.set_version_flag("--version", "exp " EXP_VERSION);
  Context context;
  context.argv.assign(argv, argv + argc);
  add(Command(&app), context);
  try {
    app.parse(ForParser(argc, argv));
  } catch (const CLI::Success& e) {  // help, the version
    app.exit(e);
    std::cout.flush();
  } catch (const CLI::ParseError& e) {
    TellText(UsageText(&app, e));
    return static_cast<int>(ErrorKind::kUsage);
  }
  FlushOutput(context);
  return context.exit_code;
}

constexpr const char* kLimitsAdvice =
    "`exp doctor --look` tells the limits of memory, threads, files and disks";

// What the system refused: a thread, a file, an output that takes no more.
std::string Advice(const std::error_code& code) {
  if (code == std::errc::bad_file_descriptor)
    return "its standard output is closed: name a file, or /dev/null";
  const std::string advice = WriteAdvice(code.default_error_condition().value());
  return advice.empty() ? kLimitsAdvice : advice;
}

}  // namespace

int RunApp(int argc, char** argv, void (*add)(Command app, Context& context)) {
  // A write beyond `ulimit -f` is an error that can be told, not the end of the program.
  ::signal(SIGXFSZ, SIG_IGN);
  // Some daemons start programs with this one ignored: how children end couldn't be told, so that
  // git, nvcc and a run's own command would seem to have failed.
  ::signal(SIGCHLD, SIG_DFL);
  HoldClosedStreams();
  try {
    return Parse(argc, argv, add);
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
    if (system != nullptr && system->code() == std::errc::broken_pipe && ReaderGone()) return 0;
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
