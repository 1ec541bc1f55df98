#include "src/cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace xp::cli {
namespace {

constexpr double kLive = 0.1, kPlain = 30;  // seconds between two looks

}  // namespace

bool IsTerminal(int descriptor) { return ::isatty(descriptor) == 1; }

int TerminalColumns(int descriptor, int least, int otherwise) {
  winsize size{};
  const bool told = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0;
  return told && size.ws_col >= least ? size.ws_col : otherwise;
}

std::string Bar(int64_t done, int64_t total, int width) {
  const double share = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(total, 1));
  int full = std::clamp(static_cast<int>(share * width), 0, width);
  std::string bar(static_cast<size_t>(full), '=');
  if (full < width) bar += '>';
  bar.resize(static_cast<size_t>(width), ' ');
  return "[" + bar + "]";
}

std::string DurationText(double seconds) {
  const int64_t s = std::llround(seconds);
  if (s >= 3600) return fmt::format("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{:02}:{:02}", s / 60, s % 60);
}

Pace::Pace(bool terminal, double silent_seconds)
    : terminal_(terminal), due_(terminal ? silent_seconds : kPlain) {}

std::optional<std::string> Pace::Look(int64_t done, int64_t total, const char* unit) {
  if (!counts_) {
    counts_.emplace();
    first_ = done;
    return std::nullopt;
  }
  const double seconds = counts_->Seconds();
  if (seconds < due_) return std::nullopt;
  due_ = seconds + (terminal_ ? kLive : kPlain);
  const double speed = std::max(static_cast<double>(done - first_) / seconds, 1e-9);
  return fmt::format("{:.1f}{}  eta {}", speed, unit,
                     DurationText(static_cast<double>(total - done) / speed));
}

}  // namespace xp::cli
