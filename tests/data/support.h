// Folders and files that the tests of the data module share.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "exp/base/file.h"

namespace xp::data::test {

// A folder of its own, removed at the end.
struct TempDir {
  std::filesystem::path path;
  explicit TempDir(const std::string& name)
      : path(std::filesystem::temp_directory_path() /
             ("exp_data_" + name + "_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~TempDir() { std::filesystem::remove_all(path); }

  std::string Write(const std::string& name, const std::string& content) const {
    WriteFileAtomic(path / name, content);
    return (path / name).string();
  }
};

inline std::string Fixture(const std::string& name) {
  return std::string(EXP_SOURCE_DIR) + "/tests/data/fixtures/" + name;
}

// The real data sets beside the repository; empty when they aren't there.
inline std::filesystem::path SharedData() {
  const char* named = std::getenv("EXP_SHARED_DATA");
  std::filesystem::path path = named ? named : std::string(EXP_SOURCE_DIR) + "/../shared/data";
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace xp::data::test
