// What is shown on a terminal while something takes long, and how wide that is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "exp/base/stopwatch.h"

namespace xp::cli {

bool IsTerminal(int descriptor);
// Of the terminal behind it; `otherwise` where it doesn't say, or has fewer than `least`.
int TerminalColumns(int descriptor, int least = 21, int otherwise = 100);

// Takes away what stands on the line, for another text to stand there.
inline constexpr const char* kClearLine = "\r\033[K";

// "[=====>    ]", `width` characters within.
std::string Bar(int64_t done, int64_t total, int width);
// "01:02:03" or "02:03".
std::string DurationText(double seconds);

// How fast something goes on, and when that is shown: on a terminal ten times a second, elsewhere
// twice a minute.
class Pace {
 public:
  // On a terminal nothing is shown in the first `silent_seconds`.
  explicit Pace(bool terminal, double silent_seconds = 0);
  // "35.1 img/s  eta 01:20", of unit " img/s", where it is time to show it. The first call only
  // begins the count.
  std::optional<std::string> Look(int64_t done, int64_t total, const char* unit);

 private:
  bool terminal_;
  double due_;                       // seconds
  std::optional<Stopwatch> counts_;  // since `first_` were done
  int64_t first_ = 0;
};

}  // namespace xp::cli
