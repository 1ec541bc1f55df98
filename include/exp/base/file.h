// Reading whole files, and writing them so that a reader sees the old or the new content, never
// half.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace xp {

// The whole content. Throws UsageError naming the path and the system's reason.
std::string ReadFile(const std::filesystem::path& path);

// Writes beside the target, flushes to disk and renames over it; a device or a pipe (/dev/stdout)
// is written as it is. Throws JobError naming the path. The file beside it is `path`.tmp.N; one
// that a killed process left there is taken away by the next who writes `path`.
void WriteFileAtomic(const std::filesystem::path& path, std::string_view content);
// The same for content in pieces, written one after another: no copy of a large file in memory.
void WriteFileAtomic(const std::filesystem::path& path, std::span<const std::string_view> pieces);

struct Abandoned {
  int64_t files = 0, bytes = 0;
};
// Removes from a folder what killed processes left of WriteFileAtomic: the files NAME.tmp.N that
// nobody is writing now, for the names that `ours` accepts. With `dry_run` only counts them. A
// folder that isn't there has none.
Abandoned RemoveAbandoned(const std::filesystem::path& folder,
                          const std::function<bool(const std::string& name)>& ours,
                          bool dry_run = false);

}  // namespace xp
