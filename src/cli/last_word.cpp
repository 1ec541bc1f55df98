#include "src/cli/last_word.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>

#include "exp/base/stopwatch.h"
#include "src/cli/tell.h"

namespace xp::cli {
namespace {

// Signals shall wake the thread that works, not the one that watches.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

LastWord::LastWord(StopFlag stop, double seconds, std::function<void()> say)
    : say_(std::move(say)) {
  const NoSignals none;
  try {
    thread_ = std::thread([this, stop, seconds] { Watch(stop, seconds); });
  } catch (const std::system_error&) {  // `ulimit -u`
  }
}

LastWord::~LastWord() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  over_changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void LastWord::Watch(StopFlag stop, double seconds) {
  constexpr auto kLook = std::chrono::milliseconds(100);
  std::unique_lock lock(mutex_);
  std::optional<Stopwatch> stopped;
  while (!stopped || stopped->Seconds() < seconds) {
    if (over_changed_.wait_for(lock, kLook, [this] { return over_; })) return;
    if (!stopped && Stopped(stop)) stopped.emplace();
  }
  try {
    say_();
  } catch (const std::exception& e) {
    Tell("error: {}\n", e.what());
  }
  std::fflush(stdout);
  ::_exit(static_cast<int>(ErrorKind::kInterrupted));
}

}  // namespace xp::cli
