// What is said and kept where the work doesn't end although a signal asked it to: a driver or a
// disk that hangs returns from nothing.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "exp/base/stop.h"

namespace xp::cli {

class LastWord {
 public:
  // Calls `say` in a thread of its own and ends the program with exit code 130 when `stop` has been
  // set for `seconds` and this still lives. Where no thread can be started nothing watches.
  LastWord(StopFlag stop, double seconds, std::function<void()> say);
  // From here on `say` isn't called any more; one that is being said is waited for.
  ~LastWord();
  LastWord(const LastWord&) = delete;
  LastWord& operator=(const LastWord&) = delete;

 private:
  void Watch(StopFlag stop, double seconds);

  std::function<void()> say_;
  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace xp::cli
