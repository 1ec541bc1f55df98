// Folders and files that the tests of the data module share.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "exp/base/file.h"
#include "exp/data/image.h"

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

// A binary PPM, as Pillow writes it.
inline RgbImage ReadPpm(const std::string& path) {
  std::string text = ReadFile(path);
  int width = 0, height = 0, skip = 0;
  if (std::sscanf(text.c_str(), "P6 %d %d 255%n", &width, &height, &skip) != 2)
    throw std::runtime_error(path);
  RgbImage image;
  image.Reset(width, height);
  if (text.size() != static_cast<size_t>(skip) + 1 + image.pixels.size())
    throw std::runtime_error(path);
  std::copy(text.begin() + skip + 1, text.end(), image.pixels.begin());
  return image;
}

// The real data sets beside the repository; empty when they aren't there.
inline std::filesystem::path SharedData() {
  const char* named = std::getenv("EXP_SHARED_DATA");
  std::filesystem::path path = named ? named : std::string(EXP_SOURCE_DIR) + "/../shared/data";
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace xp::data::test
