#include "exp/base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>

extern char** environ;

namespace xp {
namespace {

constexpr size_t kMostOutput = size_t{16} << 20;
using Clock = std::chrono::steady_clock;

double Left(Clock::time_point end) {
  return std::chrono::duration<double>(end - Clock::now()).count();
}

Clock::time_point After(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& argv, bool errors) {
  if (argv.empty()) return;
  int out[2], in[2];
  if (::pipe2(out, O_CLOEXEC) != 0) return;
  // A socket, so that writing to a child that has ended is an error instead of a signal.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) {
    ::close(out[0]);
    ::close(out[1]);
    return;
  }
  std::vector<char*> words;
  words.reserve(argv.size() + 1);
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[1], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  // A bare chroot has none: better to show the errors than not to start.
  const bool hide = !errors && ::access("/dev/null", W_OK) == 0;
  if (hide) posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  // What this program ignores (src/cli/app.cpp) isn't for others to ignore.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t usual;
  ::sigemptyset(&usual);
  ::sigaddset(&usual, SIGXFSZ);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  int failed = ::posix_spawnp(&pid_, words[0], &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ::close(in[1]);
  ::close(out[1]);
  in_ = in[0];
  out_ = out[0];
  if (failed != 0) pid_ = -1;
}

ChildProcess::~ChildProcess() {
  Wait(0);
  if (in_ >= 0) ::close(in_);
  if (out_ >= 0) ::close(out_);
}

bool ChildProcess::Fill(double seconds) {
  at_end_ = at_end_ || pid_ <= 0 || buffer_.size() > kMostOutput;
  if (at_end_) return false;
  pollfd wait{out_, POLLIN, 0};
  // Up, so that the time has passed then: a caller who looks sees so.
  const int milliseconds = static_cast<int>(std::ceil(std::max(0.0, seconds) * 1000));
  if (::poll(&wait, 1, milliseconds) <= 0) return false;
  char piece[4096];
  ssize_t n = ::read(out_, piece, sizeof(piece));
  at_end_ = n == 0 || (n < 0 && errno != EINTR);
  if (n <= 0) return false;
  buffer_.append(piece, static_cast<size_t>(n));
  return true;
}

std::optional<std::string> ChildProcess::Line(double seconds) {
  auto end = After(seconds);
  size_t at = 0, searched = 0;
  while ((at = buffer_.find('\n', searched)) == std::string::npos) {
    searched = buffer_.size();
    if (!Fill(Left(end))) return std::nullopt;
  }
  std::string line = buffer_.substr(0, at);
  buffer_.erase(0, at + 1);
  return line;
}

std::string ChildProcess::Rest(double seconds) {
  auto end = After(seconds);
  while (Fill(Left(end))) {
  }
  if (Left(end) <= 0 && pid_ > 0) ::kill(pid_, SIGKILL);
  return std::move(buffer_);
}

void ChildProcess::Write(const std::string& text) {
  if (in_ >= 0) static_cast<void>(::send(in_, text.data(), text.size(), MSG_NOSIGNAL));
}

int ChildProcess::Wait(double seconds) {
  if (pid_ <= 0) return status_;
  int status = 0;
  auto end = After(seconds);
  while (Left(end) > 0) {
    pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) {
      pid_ = -1;
      return status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    if (ended < 0 && errno != EINTR) break;
    ::poll(nullptr, 0, 10);
  }
  ::kill(pid_, SIGKILL);
  // One that waits for a driver or a disk can't be killed at once, and is left alone.
  end = After(1);
  while (::waitpid(pid_, &status, WNOHANG) == 0 && Left(end) > 0) ::poll(nullptr, 0, 1);
  pid_ = -1;
  return status_ = kEnded;
}

}  // namespace xp
