// An empty folder that goes, with all that is in it, when this does; where the process is killed,
// when the next one of the same purpose is made, ten minutes later or more.
#pragma once

#include <memory>
#include <string>

#include "exp/base/file_descriptor.h"

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
  std::unique_ptr<FileDescriptor> lock_;  // as long as this lives (flock)
};

}  // namespace xp
