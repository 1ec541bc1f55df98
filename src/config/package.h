// Where installed packages keep their configs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace xp::config {

// The file of a `pkg::path` base, or an empty path. Looks in `search_paths`, EXP_CONFIG_PATH, the
// site folder that `from` itself lies in, VIRTUAL_ENV and the system's Python folders.
std::filesystem::path FindPackageConfig(const std::string& package, const std::string& path,
                                        const std::filesystem::path& from,
                                        const std::vector<std::string>& search_paths);

// The first of those folders that holds `relative`.
std::filesystem::path FindInPackages(const std::string& relative, const std::filesystem::path& from,
                                     const std::vector<std::string>& search_paths);

}  // namespace xp::config
