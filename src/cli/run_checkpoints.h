// The checkpoints that a run's record names: which are still as they were written, and what to say
// where none is.
#pragma once

#include <filesystem>
#include <string>

#include "exp/base/error.h"
#include "exp/record/reader.h"

namespace xp::cli {

// Why the file at `path` isn't the recorded checkpoint; empty where it is.
std::string CheckpointProblem(const std::filesystem::path& path,
                              const record::CheckpointRecord& checkpoint);

// Where a checkpoint is now: where it was written, or, when the folder that the run ran in was
// moved with its store, at the same place in that. Empty: neither holds its content; `problem` says
// why.
std::filesystem::path FindCheckpoint(const record::Run& run,
                                     const record::CheckpointRecord& checkpoint,
                                     const std::filesystem::path& store, std::string* problem);

// What became of the run and of each checkpoint that it wrote, when none can be used; `next` is
// what to do where they were written but aren't there.
Error NoCheckpoint(const record::Run& run, const std::filesystem::path& store,
                   const std::string& next);

}  // namespace xp::cli
