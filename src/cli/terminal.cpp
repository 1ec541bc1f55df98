#include "src/cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace xp::cli {

bool IsTerminal(int descriptor) { return ::isatty(descriptor) == 1; }

int TerminalColumns(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 100;
}

std::string Bar(double share, int width) {
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

}  // namespace xp::cli
