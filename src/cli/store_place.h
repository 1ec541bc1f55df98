// Where commands that write find their store.
#pragma once

#include <filesystem>
#include <string>

namespace xp::cli {

// The store that `flag`, EXP_STORE or a folder upward from here names; else the place for a new
// one.
std::filesystem::path StoreToWrite(const std::string& flag);

}  // namespace xp::cli
