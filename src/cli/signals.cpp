#include "src/cli/signals.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>

namespace xp::cli {
namespace {

std::atomic<bool> stop{false};
std::atomic<int> number{0};
std::atomic<const char*> text{""};
struct sigaction old_int, old_term, old_hup;

void Say(const char* words) {
  ssize_t unused = ::write(STDERR_FILENO, words, std::strlen(words));
  static_cast<void>(unused);
}

extern "C" void Caught(int signal) {
  if (stop.exchange(true)) ::_exit(130);
  number = signal;
  Say("\nstopping: ");
  Say(text);
  Say("; once more to quit at once\n");
}

// A handler, not SIG_IGN: that would be inherited by another trainer's processes.
extern "C" void PassOver(int) {}

void Catch(int signal, void (*handler)(int), struct sigaction* old) {
  struct sigaction action;
  std::memset(&action, 0, sizeof(action));
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, old);
}

}  // namespace

StopSignals::StopSignals(const char* kept) {
  stop = false;
  text = kept;
  number = 0;
  Catch(SIGINT, Caught, &old_int);
  Catch(SIGTERM, Caught, &old_term);
  Catch(SIGHUP, Caught, &old_hup);
  if (old_hup.sa_handler == SIG_IGN) ::sigaction(SIGHUP, &old_hup, nullptr);  // nohup
  struct sigaction unused;
  Catch(SIGPIPE, PassOver, &unused);  // for good: the last words come after this
}

StopSignals::~StopSignals() {
  ::sigaction(SIGINT, &old_int, nullptr);
  ::sigaction(SIGTERM, &old_term, nullptr);
  ::sigaction(SIGHUP, &old_hup, nullptr);
}

void StopSignals::Keep(const char* kept) { text = kept; }

const std::atomic<bool>& StopSignals::flag() { return stop; }
int StopSignals::Number() { return number; }
std::string StopSignals::Name() {
  int n = number;
  return n == SIGINT ? "SIGINT" : n == SIGTERM ? "SIGTERM" : n == SIGHUP ? "SIGHUP" : "";
}

}  // namespace xp::cli
