#include "src/bench/time_bound.h"

#include <fmt/format.h>

#include <limits>

namespace xp::bench {

void TimeBound::Require(double step, double rest, const std::string& found) const {
  if (Left() >= rest) return;
  throw TimeLimit(step, fmt::format("{}; the bound is {} a case", found, SecondsText(seconds_)));
}

double TimeBound::Left() const {
  return seconds_ > 0 ? seconds_ - watch_.Seconds() : std::numeric_limits<double>::infinity();
}

std::string SecondsText(double seconds) {
  return seconds < 100 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

}  // namespace xp::bench
