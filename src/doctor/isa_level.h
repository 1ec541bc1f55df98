// The levels of x86-64 (System V ABI, "Micro-Architecture Levels"), which glibc's loader goes by.
#pragma once

#include <string>
#include <vector>

#include "exp/doctor/system.h"

namespace xp::doctor {

// 1 to 4; 0: another kind of processor, or one that can't be seen from here.
int IsaLevel(const System& system);

// The folders in which the loader looks for a better build of a library before it takes the usual
// one, best first, of a machine of that level: "glibc-hwcaps/x86-64-v3" (ld.so(8)).
std::vector<std::string> HwcapFolders(int level);

}  // namespace xp::doctor
