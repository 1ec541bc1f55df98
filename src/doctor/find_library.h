// Where the dynamic linker would find a library; private to src/doctor.
#pragma once

#include <string>
#include <vector>

#include "exp/doctor/system.h"

namespace xp::doctor {

// In the order of ld.so(8): `run_path`, LD_LIBRARY_PATH, the folders of /etc/ld.so.conf, the usual
// ones. Empty: nowhere. A name with a slash is taken as a path.
std::string FindLibrary(const System& system, const std::string& soname,
                        const std::vector<std::string>& run_path = {});

}  // namespace xp::doctor
