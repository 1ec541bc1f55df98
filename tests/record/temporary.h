// A folder of its own for a test, removed afterwards.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

struct TemporaryFolder {
  std::filesystem::path path;
  TemporaryFolder() {
    static std::atomic<int> count{0};
    path = std::filesystem::temp_directory_path() /
           ("exp_record_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path);
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
};
