#include "src/record/state.h"

#include <fmt/format.h>

#include <chrono>

#include "exp/record/process.h"

namespace xp::record {
namespace {

// A writer touches its row at least every 10 s; on another machine that is all we can see.
constexpr int64_t kHeartbeatLimitNs = 60'000'000'000;

std::string OutOfMemoryHint(const Statement& row, int column) {
  std::optional<int64_t> before = row.OptionalInt(column), now = OutOfMemoryKills();
  if (!before || !now || *now <= *before) return "";
  return "; the kernel has killed for memory in this cgroup since it began";
}

}  // namespace

RunStatus StatusFromRow(const Statement& row, int first) {
  RunStatus status{
      .state = row.Text(first), .reason = row.Text(first + 1), .pid = row.Int(first + 2)};
  status.host = row.Text(first + 6);
  status.ended_ns = row.Int(first + 9);
  if (!status.state.empty()) return status;
  ProcessIdentity process{.pid = status.pid,
                          .start = row.Int(first + 3),
                          .pid_namespace = row.Int(first + 4),
                          .boot_id = row.Text(first + 5),
                          .host = status.host};
  status.state = "running";
  switch (Probe(process)) {
    case Life::kAlive:
      status.seen = true;
      break;
    case Life::kStopped:
      status.seen = true;
      status.reason = "paused by a signal";
      break;
    case Life::kGone:
      status.state = "killed";
      status.reason = fmt::format("process {} ended without a word{}", process.pid,
                                  OutOfMemoryHint(row, first + 8));
      break;
    case Life::kRebooted:
      status.state = "killed";
      status.reason = "the machine was restarted";
      break;
    case Life::kUnknown: {
      int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
      int64_t silent = now - row.Int(first + 7);
      if (silent > kHeartbeatLimitNs) {
        status.state = "killed";
        status.reason =
            fmt::format("no sign of life from {} for {} s", process.host, silent / 1'000'000'000);
      } else {
        status.reason = "on " + process.host;
      }
    }
  }
  return status;
}

RunStatus CurrentStatus(const Database& db, int64_t run) {
  Statement s(db, fmt::format("SELECT {} FROM attempt WHERE run=?1 ORDER BY number DESC LIMIT 1",
                              kStatusColumns));
  if (!s.Bind(1, run).Step()) return {.state = "killed", .reason = "it never began"};
  return StatusFromRow(s, 0);
}

}  // namespace xp::record
