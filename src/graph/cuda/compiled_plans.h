// Plans whose kernels cuDNN compiles when they are made (epilogues: up to a second of a core each),
// on disk in cuDNN's own JSON: one file a plan, "exp-plan 1 <hash of the rest>\n<JSON>".
#pragma once

#include <filesystem>
#include <string>

namespace xp::graph::cuda {

// Thread-safe: every call looks at the files.
class CompiledPlans {
 public:
  // For one GPU model and cuDNN version; an empty folder: nothing is kept.
  explicit CompiledPlans(std::filesystem::path folder);

  // Empty when there is none, or none that is whole.
  std::string Find(const std::string& problem, const std::string& choice) const;
  // A file that can't be written costs time at the next start, nothing else.
  void Add(const std::string& problem, const std::string& choice, const std::string& json) const;

 private:
  std::filesystem::path File(const std::string& problem, const std::string& choice) const;

  std::filesystem::path folder_;
};

}  // namespace xp::graph::cuda
