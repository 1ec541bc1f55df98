// Room on the store's disk; private to src/record.
#pragma once

#include <filesystem>

namespace xp::record {

// A file of a megabyte in the store's folder, given back to a full disk so that the end of a run
// can still be written.
inline constexpr const char* kReserveName = "reserve";

// Whether there is less room than SQLite needs to open a store.
bool DiskFull(const std::filesystem::path& folder);

}  // namespace xp::record
