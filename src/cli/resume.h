// Going on with a run that ended early: what `exp run --resume` and `exp resume` share.
#pragma once

#include <filesystem>
#include <string>

#include "src/cli/launch.h"

namespace xp::cli {

struct ResumeRequest {
  std::string selector;  // RUN, "auto", or a folder with checkpoints
  bool accept_changes = false;
  bool work_dir_given = false, seed_given = false, name_given = false;
};

// Fills in where the launch goes on. With another config, other contents of its files, another kind
// of device or another command than the run's: an error that lists the changes, or with
// `accept_changes` a new run ("continues") that begins at the old one's newest checkpoint. "auto"
// that finds nothing leaves the launch as it is and says so. A run that was stopped before its
// first checkpoint begins again. False: the run is finished, and there is nothing left to do.
bool SetUpResume(const ResumeRequest& request, Launch& launch);

// The checkpoint of another run that this one began from ("continues"); empty where it began anew.
// Throws JobError when that isn't there any more as it was.
std::filesystem::path BeganFrom(const record::Run& run);

}  // namespace xp::cli
