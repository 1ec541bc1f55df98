#include "src/cli/run_folder.h"

#include <system_error>

#include "src/cli/tell.h"

namespace fs = std::filesystem;

namespace xp::cli {

std::vector<fs::path> MovedPlaces(const record::Run& run, const fs::path& store,
                                  const fs::path& path) {
  std::vector<fs::path> places;
  const fs::path inside = path.lexically_relative(run.cwd);
  if (run.cwd.empty() || inside.empty() || *inside.begin() == "..") return places;
  // How deep the run's folder lay below the store's isn't recorded.
  const fs::path top = fs::absolute(store).parent_path();
  fs::path below;
  for (fs::path folder = run.cwd; folder.has_relative_path(); folder = folder.parent_path()) {
    fs::path place = (top / below / inside).lexically_normal();
    if (place != path.lexically_normal()) places.push_back(std::move(place));
    below = below.empty() ? folder.filename() : folder.filename() / below;
  }
  return places;
}

fs::path WorkDirNow(const record::Run& run, const fs::path& store) {
  std::error_code error;
  if (fs::is_directory(run.cwd, error) || fs::is_directory(run.work_dir, error))
    return run.work_dir;
  for (const fs::path& place : MovedPlaces(run, store, run.work_dir))
    if (fs::is_directory(place, error)) return place;
  return run.work_dir;
}

fs::path FolderNow(const record::Run& run, const fs::path& store) {
  // The run's own work_dir tells its folder from another one at the same place.
  const fs::path work_dir = WorkDirNow(run, store);
  if (work_dir == run.work_dir) return run.cwd;
  fs::path folder = work_dir;
  for (const fs::path& part : fs::path(run.work_dir).lexically_relative(run.cwd))
    if (!part.empty() && part != ".") folder = folder.parent_path();
  return folder;
}

void EnterFolder(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || folder == fs::current_path(error)) return;
  if (!fs::is_directory(folder, error)) {
    Tell("note: the folder {} is gone; relative paths are taken from here\n", folder.string());
    return;
  }
  fs::current_path(folder, error);
}

}  // namespace xp::cli
