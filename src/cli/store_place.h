// Where commands that write find their store.
#pragma once

#include <filesystem>
#include <string>

#include "exp/base/error.h"

namespace xp::cli {

// The store that `flag`, EXP_STORE or a folder upward from here names; else the place for a new
// one.
std::filesystem::path StoreToWrite(const std::string& flag);

// For commands whose result is worth showing even where it can't be kept: a note on stderr.
void PrintNotStored(const std::string& what, const Error& problem);

}  // namespace xp::cli
