// /etc/ld.so.cache, in which the dynamic linker looks libraries up; private to src/doctor.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace xp::doctor {

// The paths of a library, in the linker's order: first those in one of the folders of builds for
// newer processors (of HwcapFolders, best first); those in others are left out. nullopt for bytes
// of another format than glibc's since 2.2 ("glibc-ld.so.cache1.1"), also behind the older one's.
// Any bytes are fine.
std::optional<std::vector<std::string>> CachedPaths(std::span<const char> bytes,
                                                    const std::string& soname,
                                                    const std::vector<std::string>& better = {});

}  // namespace xp::doctor
