// Ctrl-C, SIGTERM and the end of the terminal (SIGHUP, unless nohup lets it pass): the first asks
// to stop, the second ends the program at once. SIGPIPE ends nothing from then on: what is done
// matters more than who watches it.
#pragma once

#include <atomic>
#include <string>

namespace xp::cli {

class StopSignals {
 public:
  // Catches these signals while it lives; at the first it says `kept`, which must stay there,
  // of what was done so far. One at a time.
  explicit StopSignals(const char* kept);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // From here on it says this.
  static void Keep(const char* kept);

  static const std::atomic<bool>& flag();
  // "SIGINT", "SIGTERM", "SIGHUP", "" when none came.
  static std::string Name();
  static int Number();
};

}  // namespace xp::cli
