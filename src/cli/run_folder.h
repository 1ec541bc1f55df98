// Where the folder that a run ran in is now: there, or moved together with the run's store.
#pragma once

#include <filesystem>
#include <vector>

#include "exp/record/reader.h"

namespace xp::cli {

// Where a file or folder that was at `path` may lie when the folder that the run ran in was moved
// with its store, which lay in that folder or in one above; nothing for what lay elsewhere.
std::vector<std::filesystem::path> MovedPlaces(const record::Run& run,
                                               const std::filesystem::path& store,
                                               const std::filesystem::path& path);

// The folder that the run ran in, where it is now; as recorded when it isn't found.
std::filesystem::path FolderNow(const record::Run& run, const std::filesystem::path& store);
// The run's folder of checkpoints, likewise.
std::filesystem::path WorkDirNow(const record::Run& run, const std::filesystem::path& store);

// The config's relative paths mean the folder where the run ran: goes there, or says that it is
// gone.
void EnterFolder(const std::filesystem::path& folder);

}  // namespace xp::cli
