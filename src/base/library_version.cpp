#include "exp/base/library_version.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>

#include "exp/base/cudnn_parts.h"
#include "exp/base/file_descriptor.h"

namespace xp {
namespace {

std::string Joined(int64_t a, int64_t b) { return std::to_string(a) + "." + std::to_string(b); }

std::string Joined(int64_t a, int64_t b, int64_t c) {
  return Joined(a, b) + "." + std::to_string(c);
}

std::optional<int64_t> AskHere(const std::string& library, const std::string& name,
                               LibraryCall call) {
  const std::unique_ptr<void, int (*)(void*)> handle(
      ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL), ::dlclose);
  if (!handle || !MissingCudnnPart(handle.get()).empty()) return std::nullopt;
  void* function = ::dlsym(handle.get(), name.c_str());
  if (function == nullptr) return std::nullopt;
  if (call == LibraryCall::kSize) {
    return static_cast<int64_t>(reinterpret_cast<size_t (*)()>(function)());
  }
  int value = 0;
  const bool told = reinterpret_cast<int (*)(int*)>(function)(&value) == 0;
  return told ? std::optional<int64_t>(value) : std::nullopt;
}

// What the library prints, and that it may end the process, is nobody's matter but the child's.
[[noreturn]] void AnswerInto(int pipe, const std::string& library, const std::string& name,
                             LibraryCall call) {
  for (int signal : {SIGINT, SIGHUP, SIGTERM}) ::signal(signal, SIG_IGN);
  for (int signal : {SIGSEGV, SIGABRT, SIGILL, SIGBUS, SIGFPE}) ::signal(signal, SIG_DFL);
  const rlimit no_core{0, 0};
  static_cast<void>(::setrlimit(RLIMIT_CORE, &no_core));
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  for (int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (nowhere < 0 || ::dup2(nowhere, fd) < 0) ::close(fd);
  }
  const std::optional<int64_t> value = AskHere(library, name, call);
  if (value) static_cast<void>(::write(pipe, &*value, sizeof(*value)));
  ::_exit(0);
}

// nullopt where the child ends, or says nothing for five seconds.
std::optional<int64_t> AnswerFrom(int pipe) {
  constexpr int kPatience = 5000;  // milliseconds
  pollfd wait{pipe, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&wait, 1, kPatience);
  } while (ready < 0 && errno == EINTR);
  int64_t value = 0;
  return ready > 0 && ::read(pipe, &value, sizeof(value)) == sizeof(value) ? std::optional(value)
                                                                           : std::nullopt;
}

}  // namespace

std::optional<int64_t> AskLibrary(const std::string& library, const std::string& name,
                                  LibraryCall call) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return AskHere(library, name, call);
  const FileDescriptor reading(ends[0]);
  pid_t child = -1;
  {
    const FileDescriptor writing(ends[1]);
    child = ::fork();
    if (child == 0) AnswerInto(ends[1], library, name, call);
  }
  if (child < 0) return AskHere(library, name, call);  // `ulimit -u`
  const std::optional<int64_t> value = AnswerFrom(reading.get());
  if (!value) ::kill(child, SIGKILL);  // it may hang; one that has ended already doesn't mind
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return value;
}

std::string CudaVersionText(int64_t number) { return Joined(number / 1000, number % 1000 / 10); }

std::string CudnnVersionText(int64_t number) {
  const int64_t unit = number >= 90000 ? 10000 : 1000;
  return Joined(number / unit, number % unit / 100, number % 100);
}

std::string NcclVersionText(int64_t number) {
  const int64_t unit = number >= 10000 ? 10000 : 1000;
  return Joined(number / unit, number % unit / 100, number % 100);
}

}  // namespace xp
