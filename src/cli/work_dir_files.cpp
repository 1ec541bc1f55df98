#include "src/cli/work_dir_files.h"

#include <string_view>
#include <system_error>

#include "exp/base/error.h"
#include "exp/base/file.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

bool Exists(const fs::path& file) {
  std::error_code error;
  return fs::exists(fs::symlink_status(file, error));
}

bool Holds(const fs::path& file, const std::string& text) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(file, error))) return false;
  try {
    return fs::file_size(file, error) == text.size() && ReadFile(file) == text;
  } catch (const Error&) {  // not ours to read
    return false;
  }
}

// "config.yaml" and "config-1a2b3c4d5e6f.yaml".
bool IsNamed(std::string_view name, std::string_view stem, std::string_view ending) {
  if (!name.starts_with(stem) || !name.ends_with(ending) ||
      name.size() < stem.size() + ending.size())
    return false;
  std::string_view between = name.substr(stem.size(), name.size() - stem.size() - ending.size());
  constexpr size_t kId = 12;
  return between.empty() ||
         (between.size() == kId + 1 && between[0] == '-' &&
          between.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos);
}

// A run's config is for its owner alone: it holds secrets as they were given.
bool OthersMayRead(const fs::path& file) {
  std::error_code error;
  const fs::perms mode = fs::status(file, error).permissions();
  return !error && (mode & (fs::perms::group_read | fs::perms::others_read)) != fs::perms::none;
}

}  // namespace

WorkDirFiles ChooseWorkDirFiles(const fs::path& work_dir, const std::string& run_id,
                                const std::string& config_text) {
  WorkDirFiles files{.config = work_dir / "config.yaml", .metrics = work_dir / "metrics.jsonl"};
  files.config_there = Holds(files.config, config_text);
  if (!files.config_there && Exists(files.config))
    files.config = work_dir / ("config-" + run_id + ".yaml");
  if (Exists(files.metrics) && !Holds(files.metrics, ""))
    files.metrics = work_dir / ("metrics-" + run_id + ".jsonl");
  return files;
}

std::vector<fs::path> FindWorkDirFiles(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool config = IsNamed(name, "config", ".yaml") && !OthersMayRead(at->path());
    if (config || IsNamed(name, "metrics", ".jsonl")) found.push_back(at->path());
  }
  return found;
}

}  // namespace xp::cli
