// The first transaction of a run or of an attempt; private to src/record.
#pragma once

#include <string>

#include "exp/record/writer.h"
#include "src/record/sqlite.h"

namespace xp::record {

struct Begun {
  std::string run_id;
  int64_t run = 0;      // run.seq
  int64_t attempt = 0;  // attempt.id
};

Begun BeginRun(Database& db, const RunInfo& info);

// Throws UsageError where the run is unknown or another process that lives owns it.
Begun BeginAttempt(Database& db, const std::string& run_id, const ResumePoint& from);

// Stores bytes once; gives their hash.
std::string PutObject(Database& db, std::string_view bytes);
// Stores a JSON text once; gives its hash, empty for an empty text.
std::string PutDocument(Database& db, const std::string& kind, const std::string& json);

// Adds to a run what was removed for secrecy, each kind and place once.
void MergeRedactions(Database& db, int64_t run, const std::string& redactions_json);

int64_t WallClockNs();

}  // namespace xp::record
