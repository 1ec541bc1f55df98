#include "src/cli/signals.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>

namespace xp::cli {
namespace {

std::atomic<bool> stop{false};
std::atomic<int> number{0};
std::atomic<const char*> text{""};
struct sigaction old_int, old_term;

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

}  // namespace

StopSignals::StopSignals(const char* kept) {
  stop = false;
  text = kept;
  number = 0;
  struct sigaction action;
  std::memset(&action, 0, sizeof(action));
  action.sa_handler = Caught;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &old_int);
  ::sigaction(SIGTERM, &action, &old_term);
}

StopSignals::~StopSignals() {
  ::sigaction(SIGINT, &old_int, nullptr);
  ::sigaction(SIGTERM, &old_term, nullptr);
}

const std::atomic<bool>& StopSignals::flag() { return stop; }
int StopSignals::Number() { return number; }
std::string StopSignals::Name() {
  int n = number;
  return n == SIGINT ? "SIGINT" : n == SIGTERM ? "SIGTERM" : "";
}

}  // namespace xp::cli
