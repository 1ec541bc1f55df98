// The checkpoints that a run's record names: which are still as they were written, and what to say
// where none is.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exp/base/error.h"
#include "exp/record/reader.h"

namespace xp::cli {

// A checkpoint of a run that is still as it was written.
struct UsableCheckpoint {
  const record::CheckpointRecord* record;
  // Where it is now: where it was written, or, when the folder that the run ran in was moved with
  // its store, at the same place in that.
  std::filesystem::path path;
};

struct UsableCheckpoints {
  std::vector<UsableCheckpoint> usable;  // newest first
  // A line each on those that are damaged or gone, but for older ones that are gone: the keep
  // policy let go of them.
  std::vector<std::string> passed_over;
};

enum class Wanted { kNewest, kAll };

// Reads each file whole, for its hash; of kNewest no further than the first that can be used.
UsableCheckpoints FindCheckpoints(const record::Run& run, const std::filesystem::path& store,
                                  Wanted wanted);

// What became of the run and of each checkpoint that it wrote, when none can be used; `next` is
// what to do where they were written but aren't there.
Error NoCheckpoint(const record::Run& run, const std::filesystem::path& store,
                   const std::string& next);

}  // namespace xp::cli
