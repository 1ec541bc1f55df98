#include "exp/base/answering_child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>

#include "exp/base/stopwatch.h"

namespace xp {
namespace {

constexpr size_t kMostBytes = size_t{64} << 10;

// Files that are the program's: locks and pipes end with it, and so does the child, which hears of
// the program's end by the socket's other side.
void CloseAllBut(int socket) {
  constexpr int kFirst = STDERR_FILENO + 1;
  const auto after = static_cast<unsigned>(std::max(socket + 1, kFirst));
  if (socket > kFirst) ::close_range(kFirst, static_cast<unsigned>(socket - 1), 0);
  if (::close_range(after, UINT_MAX, 0) == 0) return;
  // Linux before 5.9, or a container's filter of system calls. Above the limit there may be those
  // that were opened before it was lowered.
  constexpr long kMost = 65536;
  const auto end = static_cast<int>(std::min(std::max(::sysconf(_SC_OPEN_MAX), 1024L), kMost));
  for (int fd = kFirst; fd < end; ++fd) {
    if (fd != socket) ::close(fd);
  }
}

// What the library prints, and that it may end the process, is nobody's matter but the child's.
void BecomeChild(int socket) {
  for (int signal : {SIGINT, SIGHUP, SIGTERM}) ::signal(signal, SIG_IGN);
  for (int signal : {SIGSEGV, SIGABRT, SIGILL, SIGBUS, SIGFPE, SIGALRM, SIGIO})
    ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core{0, 0};
  static_cast<void>(::setrlimit(RLIMIT_CORE, &no_core));
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fd != socket && (nowhere < 0 || ::dup2(nowhere, fd) < 0)) ::close(fd);
  }
  CloseAllBut(socket);
}

// While an answer is made nothing comes by the socket but the program's end, which then ends the
// child (SIGIO), wherever it hangs.
void EndWithProgram(int socket, bool on) {
  static_cast<void>(::fcntl(socket, F_SETOWN, ::getpid()));
  static_cast<void>(::fcntl(socket, F_SETFL, on ? O_ASYNC : 0));
}

// A question's first byte says how many seconds the answer may take: a child that hangs longer ends
// itself, where the program's end came before it could be heard of.
[[noreturn]] void Serve(int socket, const AnsweringChild::Answer& answer) noexcept {
  BecomeChild(socket);
  std::string message;
  for (;;) {
    message.resize(kMostBytes);
    const ssize_t n = ::recv(socket, message.data(), message.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(0);
    message.resize(static_cast<size_t>(n));
    ::alarm(static_cast<unsigned char>(message[0]) + 1);
    EndWithProgram(socket, true);
    message = "=" + answer(message.substr(1));  // so that no answer looks like the end
    message.resize(std::min(message.size(), kMostBytes));
    EndWithProgram(socket, false);
    ::alarm(0);
    if (::send(socket, message.data(), message.size(), MSG_NOSIGNAL) < 0) ::_exit(1);
  }
}

bool IsReadable(int socket, double seconds) {
  const Stopwatch watch;
  for (;;) {
    pollfd wait{socket, POLLIN, 0};
    const double left = std::max(0.0, seconds - watch.Seconds());
    const int ready = ::poll(&wait, 1, static_cast<int>(left * 1000));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace

AnsweringChild::AnsweringChild(Answer answer) : answer_(std::move(answer)) {
  int ends[2];
  // Packets: a message comes whole, and the end of the one side is seen by the other.
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(ends[0]);
    Serve(ends[1], answer_);
  }
  ::close(ends[1]);
  if (pid_ > 0) {
    socket_ = ends[0];
  } else {
    ::close(ends[0]);
  }
}

AnsweringChild::~AnsweringChild() { End(State::kEnded); }

void AnsweringChild::End(State state) {
  state_ = state;
  if (pid_ < 0) return;
  ::close(socket_);
  ::kill(pid_, SIGKILL);
  // One that waits for a driver or a disk can't be killed at once, and is left alone.
  const Stopwatch watch;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0 && watch.Seconds() < 1) ::usleep(1000);
  pid_ = -1;
}

std::optional<std::string> AnsweringChild::Ask(const std::string& question, int seconds) {
  if (state_ != State::kAnswers || question.size() >= kMostBytes) return std::nullopt;
  if (pid_ < 0) return answer_(question);
  std::string message = static_cast<char>(std::clamp(seconds, 1, 250)) + question;
  static_cast<void>(::send(socket_, message.data(), message.size(), MSG_NOSIGNAL));
  if (!IsReadable(socket_, seconds)) {
    End(State::kHangs);
    return std::nullopt;
  }
  message.resize(kMostBytes);
  const ssize_t n = ::recv(socket_, message.data(), message.size(), 0);
  if (n <= 0) {
    End(State::kEnded);
    return std::nullopt;
  }
  return message.substr(1, static_cast<size_t>(n) - 1);
}

}  // namespace xp
