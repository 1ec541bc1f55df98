#include "src/cli/out_folder.h"

#include <unistd.h>

#include <cerrno>
#include <set>

#include "exp/base/error.h"
#include "exp/base/system_advice.h"

namespace fs = std::filesystem;

namespace xp::cli {

fs::path MakeOutFolder(const std::string& folder, const std::string& flag) {
  std::error_code error;
  fs::path path;
  if (!folder.empty()) path = fs::absolute(folder, error);
  if (!path.empty() && !error) fs::create_directories(path, error);
  std::string problem;
  if (path.empty()) {
    problem = "no folder is named";
  } else if (!fs::is_directory(path)) {
    problem = "the folder can't be made: " + (error ? error.message() : "a file is in its place");
  } else if (::access(path.c_str(), W_OK | X_OK) != 0) {
    problem = "the folder can't be written";
  }
  if (problem.empty()) return path;
  throw UsageError({.what = problem,
                    .where = folder.empty() ? flag : folder,
                    .expected = "a folder, or a path where one can be made",
                    .next = "name another one with " + flag});
}

void RefuseOverwriting(const std::vector<fs::path>& written, const std::vector<fs::path>& read,
                       const std::string& flag) {
  std::set<fs::path> sources;
  std::error_code ignored;
  for (const fs::path& path : read) sources.insert(fs::weakly_canonical(path, ignored));
  for (const fs::path& path : written) {
    if (!sources.contains(fs::weakly_canonical(path, ignored))) continue;
    throw UsageError({.what = "would overwrite what it reads",
                      .where = path.string(),
                      .expected = "a folder of their own for the results",
                      .next = "name another one with " + flag});
  }
}

void CheckOutFile(const std::string& file) {
  std::error_code error;
  fs::path folder = fs::path(file).parent_path();
  std::string problem;
  int reason = 0;
  if (fs::is_directory(file, error)) {
    problem = "is a folder";
    reason = EISDIR;
  } else if (!folder.empty() && !fs::is_directory(folder, error)) {
    problem = "its folder doesn't exist";
    reason = ENOENT;
  }
  if (problem.empty()) return;
  throw UsageError({.what = problem,
                    .where = file,
                    .expected = "the path of a file in a folder that is there",
                    .next = WriteAdvice(reason)});
}

}  // namespace xp::cli
