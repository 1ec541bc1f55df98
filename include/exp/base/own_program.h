// The file of this program.
#pragma once

#include <filesystem>

namespace xp {

// Absolute; also where /proc isn't mounted. Empty where nothing tells.
std::filesystem::path OwnProgram();

}  // namespace xp
