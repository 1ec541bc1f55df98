// Another program trains, we record: `exp run CONFIG -- COMMAND ARGS...`.
//
// In the arguments {config}, {work_dir}, {seed}, {run} and {resume} (the checkpoint to go on from,
// or nothing) are replaced. The environment names the same: EXP_CONFIG, EXP_WORK_DIR, EXP_SEED,
// EXP_RUN, EXP_RESUME, and EXP_METRICS, a file to which the program appends JSON lines
// (docs/record.md, "Any trainer").
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "exp/config/node.h"
#include "exp/record/writer.h"
#include "exp/train/events.h"

namespace xp::cli {

struct ExternalOptions {
  std::vector<std::string> command;
  const config::Node& config;
  std::filesystem::path work_dir;
  std::string run_id;
  uint64_t seed = 0;
  std::filesystem::path resume;  // empty: from the start
  std::function<void(record::EpochRow&)> add_to_epoch;
};

struct ExternalResult {
  train::EndState state = train::EndState::kFinished;
  std::string reason;
};

// Throws UsageError where there is no such program: a path, or a name on the PATH. One with
// placeholders can't be judged yet.
void RequireProgram(const std::string& program);

// Until the program ends. A stop signal is passed on to it. Throws UsageError where it can't be
// started.
ExternalResult RunExternal(const ExternalOptions& options, record::RunWriter& writer);

}  // namespace xp::cli
