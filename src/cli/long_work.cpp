#include "src/cli/long_work.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "src/cli/tell.h"
#include "src/cli/terminal.h"

namespace xp::cli {
namespace {

constexpr auto kSilent = std::chrono::seconds(1);
constexpr auto kLive = std::chrono::milliseconds(100);
constexpr auto kPlain = std::chrono::seconds(30);

}  // namespace

LongWork::LongWork(std::string what, std::string units)
    : what_(std::move(what)),
      units_(std::move(units)),
      terminal_(IsTerminal(STDERR_FILENO)),
      began_(Clock::now()),
      due_(began_ + (terminal_ ? std::chrono::nanoseconds(kSilent) : kPlain)) {}

void LongWork::Clear() {
  if (std::exchange(live_, false)) TellText("\r\033[K");
}

void LongWork::Report(int64_t done, int64_t total) {
  if (done >= total) return Clear();
  const Clock::time_point now = Clock::now();
  if (now < due_ || done <= 0) return;
  due_ = now + (terminal_ ? std::chrono::nanoseconds(kLive) : kPlain);
  const double seconds = std::chrono::duration<double>(now - began_).count();
  const double speed = static_cast<double>(done) / seconds;
  const std::string facts =
      fmt::format("{} of {} {}  {:.1f}/s  eta {}", done, total, units_, speed,
                  DurationText(static_cast<double>(std::max<int64_t>(total - done, 0)) / speed));
  if (!terminal_) {
    Tell("{}: {}\n", what_, facts);
    return;
  }
  const double share = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(total, 1));
  std::string line = fmt::format("{} {} {}", what_, Bar(share, 20), facts);
  line.resize(std::min(line.size(), static_cast<size_t>(TerminalColumns(STDERR_FILENO) - 1)));
  TellText("\r\033[K" + line);
  live_ = true;
}

std::function<void(int64_t, int64_t)> LongWork::Reporter() {
  return [this](int64_t done, int64_t total) { Report(done, total); };
}

}  // namespace xp::cli
