// A run's state, from what was stored and from whether its process lives; private to src/record.
#pragma once

#include <cstdint>
#include <string>

#include "src/record/sqlite.h"

namespace xp::record {

struct RunStatus {
  std::string state;   // running, finished, failed, killed, interrupted
  std::string reason;  // why it isn't finished; "stopped by a signal" while it is paused
  int64_t pid = 0;
  std::string host;
  int64_t ended_ns = 0;  // 0: not known
  bool seen = false;     // running, and its process is seen to live; else its heartbeat says so
};

// Columns that StatusFromRow wants, in order, of the newest attempt.
inline constexpr const char* kStatusColumns =
    "state,reason,pid,pid_start,pid_namespace,boot_id,host,heartbeat_ns,oom_kills,ended_ns";

// Reads the columns of kStatusColumns starting at `first`.
RunStatus StatusFromRow(const Statement& row, int first);
RunStatus CurrentStatus(const Database& db, int64_t run);

}  // namespace xp::record
