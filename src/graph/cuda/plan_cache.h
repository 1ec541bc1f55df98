// Which cuDNN plan won for which problem, on disk: <folder>/<GPU>-cudnn-<version>.json holds
// {"format": 1, "plans": {"<problem>": {"choice": "<plan>", "milliseconds": 0.12}}}. Another winner
// changes bits, so a run records its choices (PlanNotes) and a reproduction brings them along.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace xp::graph::cuda {

class PlanCache {
 public:
  // An empty folder: nothing is kept on disk. A file that can't be read counts as empty.
  PlanCache(const std::string& folder, const std::string& gpu, const std::string& cudnn_version);

  // Beside the file: where compiled plans are kept; empty when nothing is kept on disk.
  std::filesystem::path folder() const { return std::filesystem::path(file_).replace_extension(); }

  // Empty when there is none.
  std::string Find(const std::string& problem) const;
  // Keeps it and writes the file anew, with what other processes added meanwhile.
  void Add(const std::string& problem, const std::string& choice, float milliseconds);

 private:
  struct Entry {
    std::string choice;
    float milliseconds = 0;
  };
  void Load();

  std::filesystem::path file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace xp::graph::cuda
