// Where commands put what they make.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace xp::cli {

// The folder as an absolute path, made if need be. Throws UsageError naming `flag` where it can't
// be made or written.
std::filesystem::path MakeOutFolder(const std::string& folder, const std::string& flag);

// Throws UsageError where a file to be written is one of those that were read.
void RefuseOverwriting(const std::vector<std::filesystem::path>& written,
                       const std::vector<std::filesystem::path>& read, const std::string& flag);

// Throws UsageError where a file can't be written there: a folder, or in no folder.
void CheckOutFile(const std::string& file);

}  // namespace xp::cli
