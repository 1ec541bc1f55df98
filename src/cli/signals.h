// Ctrl-C and SIGTERM: the first asks to stop, the second ends the program at once.
#pragma once

#include <atomic>
#include <string>

namespace xp::cli {

class StopSignals {
 public:
  // Catches SIGINT and SIGTERM while it lives; at the first it says `kept`, which must stay there,
  // of what was done so far. One at a time.
  explicit StopSignals(const char* kept = "the state is being saved");
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static const std::atomic<bool>& flag();
  // "SIGINT", "SIGTERM", "" when none came.
  static std::string Name();
  static int Number();
};

}  // namespace xp::cli
