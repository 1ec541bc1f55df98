// Reading whole files, and writing them so that a reader sees the old or the new content, never
// half.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace xp {

// The whole content. Throws UsageError naming the path and the system's reason.
std::string ReadFile(const std::filesystem::path& path);

// Writes beside the target, flushes to disk and renames over it; a device or a pipe (/dev/stdout)
// is written as it is. Throws JobError naming the path.
void WriteFileAtomic(const std::filesystem::path& path, std::string_view content);
// The same for content in pieces, written one after another: no copy of a large file in memory.
void WriteFileAtomic(const std::filesystem::path& path, std::span<const std::string_view> pieces);

}  // namespace xp
