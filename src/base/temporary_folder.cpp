#include "exp/base/temporary_folder.h"

#include <cstdlib>
#include <filesystem>

namespace fs = std::filesystem;

namespace xp {

TemporaryFolder::TemporaryFolder(const std::string& purpose) {
  std::error_code error;
  fs::path base = fs::temp_directory_path(error);
  // Where TMPDIR names no folder, the usual one may still do.
  std::string pattern =
      ((error ? fs::path("/tmp") : base) / ("exp-" + purpose + "-XXXXXX")).string();
  if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace xp
