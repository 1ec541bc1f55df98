#include "src/cli/external_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/system_advice.h"
#include "exp/config/canonical.h"
#include "src/cli/metrics_file.h"
#include "src/cli/signals.h"
#include "src/cli/work_dir_files.h"

extern char** environ;

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

struct Child {
  std::vector<std::string> arguments, environment;
};

Child Describe(const ExternalOptions& o, const fs::path& config, const fs::path& metrics) {
  Child child;
  for (std::string text : o.command) {
    text = Replace(std::move(text), "{config}", config.string());
    text = Replace(std::move(text), "{work_dir}", o.work_dir.string());
    text = Replace(std::move(text), "{seed}", std::to_string(o.seed));
    text = Replace(std::move(text), "{resume}", o.resume.string());
    child.arguments.push_back(Replace(std::move(text), "{run}", o.run_id));
  }
  std::array<std::pair<const char*, std::string>, 6> ours = {
      {{"EXP_CONFIG=", config.string()},
       {"EXP_METRICS=", metrics.string()},
       {"EXP_WORK_DIR=", o.work_dir.string()},
       {"EXP_SEED=", std::to_string(o.seed)},
       {"EXP_RUN=", o.run_id},
       {"EXP_RESUME=", o.resume.string()}}};
  for (char** v = environ; v && *v; ++v) {
    std::string text = *v;
    bool replaced = std::any_of(ours.begin(), ours.end(),
                                [&](auto& our) { return text.rfind(our.first, 0) == 0; });
    if (!replaced) child.environment.push_back(std::move(text));
  }
  for (const auto& [name, value] : ours) child.environment.push_back(name + value);
  return child;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& t : texts) out.push_back(t.data());
  out.push_back(nullptr);
  return out;
}

Error NotStarted(const std::string& program, int error) {
  std::error_code unknown;
  const bool there = program.find('/') != std::string::npos && fs::exists(program, unknown);
  const std::string why = error == ENOENT && there
                              ? "what runs it (the `#!` of its first line, its loader) isn't there"
                              : std::strerror(error);
  return UsageError({.what = "the program can't be started: " + why,
                     .where = program,
                     .expected = "an executable, by path or on the PATH",
                     .next = "check its path and mode; what needs a shell is `-- sh -c \"...\"`"});
}

// 0, or why the file can't be run, as execve says it.
int WhyNotRunnable(const std::string& file) {
  struct stat info;
  if (::stat(file.c_str(), &info) != 0) return errno;
  if (!S_ISREG(info.st_mode)) return EACCES;
  return ::access(file.c_str(), X_OK) == 0 ? 0 : errno;
}

// The child reports a failed exec through a pipe that a successful one closes.
pid_t Start(Child& child) {
  std::vector<char*> arguments = Pointers(child.arguments),
                     environment = Pointers(child.environment);
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) {
    throw JobError({.what = std::string("no pipe can be made: ") + std::strerror(errno),
                    .next = "`exp doctor --look` tells the limits of files and memory"});
  }
  pid_t parent = ::getpid();
  pid_t pid = ::fork();
  if (pid == 0) {
    // When this recorder is killed, the program is told, rather than going on unrecorded.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGTERM, SIG_DFL);
    ::signal(SIGXFSZ, SIG_DFL);
    ::execvpe(arguments[0], arguments.data(), environment.data());
    int error = errno;
    ssize_t unused = ::write(pipe_ends[1], &error, sizeof(error));
    static_cast<void>(unused);
    ::_exit(127);
  }
  ::close(pipe_ends[1]);
  int error = 0;
  ssize_t n = pid > 0 ? ::read(pipe_ends[0], &error, sizeof(error)) : 0;
  ::close(pipe_ends[0]);
  if (pid < 0)
    throw JobError({.what = std::string("no process can be made: ") + std::strerror(errno),
                    .next = "`exp doctor --look` tells the limits of processes and memory"});
  if (n == static_cast<ssize_t>(sizeof(error))) {
    ::waitpid(pid, nullptr, 0);
    throw NotStarted(child.arguments[0], error);
  }
  return pid;
}

// A shell around the trainer neither passes signals on nor, for some, ends before its child does:
// the whole tree below `pid` is told (proc(5), /proc/PID/task/TID/children).
void SignalTree(pid_t pid, int number) {
  std::error_code error;
  fs::path tasks = "/proc/" + std::to_string(pid) + "/task";
  std::vector<pid_t> below;
  for (auto it = fs::directory_iterator(tasks, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::ifstream children(it->path() / "children");
    for (pid_t child = 0; children >> child;) below.push_back(child);
  }
  for (pid_t child : below) SignalTree(child, number);
  ::kill(pid, number);
}

bool IsCheckpoint(const fs::path& file) {
  static constexpr std::array kEndings = {".safetensors", ".pth", ".pt",  ".ckpt",   ".onnx",
                                          ".h5",          ".npz", ".pkl", ".msgpack"};
  std::string ending = file.extension().string();
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

// Checkpoints in the work_dir that the program wrote without saying so.
void AddUnnamed(const fs::path& work_dir, fs::file_time_type since, MetricsFile& metrics) {
  std::error_code error;
  std::vector<fs::path> found;
  for (auto it = fs::recursive_directory_iterator(
           work_dir, fs::directory_options::skip_permission_denied, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (!it->is_regular_file(error) || !IsCheckpoint(it->path())) continue;
    if (it->last_write_time(error) >= since && !metrics.Recorded(it->path()))
      found.push_back(it->path());
  }
  std::sort(found.begin(), found.end());
  for (const fs::path& file : found) metrics.AddCheckpoint(file);
}

ExternalResult Judge(int status, bool stopped) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return {stopped ? train::EndState::kInterrupted : train::EndState::kFinished, ""};
  }
  std::string reason = WIFSIGNALED(status)
                           ? fmt::format("the program was ended by signal {} ({})",
                                         WTERMSIG(status), strsignal(WTERMSIG(status)))
                           : fmt::format("the program ended with code {}", WEXITSTATUS(status));
  return {stopped ? train::EndState::kInterrupted : train::EndState::kFailed, reason};
}

// The program needs the config's secrets; nobody else does.
void WritePrivately(const fs::path& file, const std::string& text) {
  std::error_code error;
  fs::remove(file, error);
  int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0)
    throw JobError({.what = std::string("can't be created: ") + std::strerror(errno),
                    .where = file.string(),
                    .next = WriteAdvice(errno)});
  ::close(fd);
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) {
    throw JobError({.what = std::string("can't be written: ") + std::strerror(errno),
                    .where = file.string(),
                    .next = WriteAdvice(errno)});
  }
}

}  // namespace

void RequireProgram(const std::string& program) {
  if (program.find('{') != std::string::npos) return;
  int why = ENOENT;
  if (program.find('/') != std::string::npos) {
    why = WhyNotRunnable(program);
  } else if (!program.empty()) {
    const char* set = std::getenv("PATH");
    std::istringstream folders(set != nullptr ? set : "/bin:/usr/bin");  // as execvpe has it
    for (std::string folder; why != 0 && std::getline(folders, folder, ':');) {
      const int here = WhyNotRunnable((folder.empty() ? "." : folder) + "/" + program);
      if (here == 0 || here == EACCES) why = here;
    }
  }
  if (why != 0) throw NotStarted(program, why);
}

ExternalResult RunExternal(const ExternalOptions& options, record::RunWriter& writer) {
  const std::string config_text = config::PrettyYaml(options.config);
  const WorkDirFiles files = ChooseWorkDirFiles(options.work_dir, options.run_id, config_text);
  if (!files.config_there) WritePrivately(files.config, config_text);
  WriteFileAtomic(files.metrics, "");
  fs::file_time_type since = fs::last_write_time(files.metrics);
  Child child = Describe(options, files.config, files.metrics);
  MetricsFile metrics(files.metrics, options.work_dir, writer);
  metrics.add_to_epoch = options.add_to_epoch;
  pid_t pid = Start(child);
  int status = 0;
  bool told = false;
  while (true) {
    pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) break;
    if (ended < 0 && errno != EINTR) break;
    if (StopSignals::flag() && !told) {
      bool interrupt = StopSignals::Number() == SIGINT;
      // Ctrl-C at a terminal reaches the program, too; twice would mean "at once" to many.
      bool has_it = interrupt && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
      if (!has_it) SignalTree(pid, interrupt ? SIGINT : SIGTERM);
      told = true;
    }
    metrics.Poll(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  metrics.Poll(true);
  AddUnnamed(options.work_dir, since, metrics);
  return Judge(status, told);
}

}  // namespace xp::cli
