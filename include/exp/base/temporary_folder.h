// An empty folder that goes, with all that is in it, when this does.
#pragma once

#include <string>

namespace xp {

class TemporaryFolder {
 public:
  // In TMPDIR, else /tmp: "exp-PURPOSE-" and six letters.
  explicit TemporaryFolder(const std::string& purpose);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // Empty where none could be made: TMPDIR is absent, full or read-only.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace xp
