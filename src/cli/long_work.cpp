#include "src/cli/long_work.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "src/cli/tell.h"

namespace xp::cli {

LongWork::LongWork(std::string what, std::string units)
    : what_(std::move(what)),
      units_(std::move(units)),
      terminal_(IsTerminal(STDERR_FILENO)),
      pace_(terminal_, 1) {}

void LongWork::Clear() {
  if (std::exchange(live_, false)) TellText(kClearLine);
}

void LongWork::Report(int64_t done, int64_t total) {
  if (done >= total) return Clear();
  const std::optional<std::string> pace = pace_.Look(done, total, "/s");
  if (!pace) return;
  const std::string facts = fmt::format("{} of {} {}  {}", done, total, units_, *pace);
  if (!terminal_) return Tell("{}: {}\n", what_, facts);
  std::string line = fmt::format("{} {} {}", what_, Bar(done, total, 20), facts);
  line.resize(std::min(line.size(), static_cast<size_t>(TerminalColumns(STDERR_FILENO) - 1)));
  TellText(kClearLine + line);
  live_ = true;
}

std::function<void(int64_t, int64_t)> LongWork::Reporter() {
  return [this](int64_t done, int64_t total) { Report(done, total); };
}

}  // namespace xp::cli
