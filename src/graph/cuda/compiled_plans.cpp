#include "src/graph/cuda/compiled_plans.h"

#include <cstdio>
#include <system_error>
#include <utility>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/hash.h"

namespace xp::graph::cuda {
namespace {

// The hash: a damaged kernel would compute something else without a word.
std::string FirstLine(std::string_view json) { return "exp-plan 1 " + HashBytes(json).Hex(); }

}  // namespace

CompiledPlans::CompiledPlans(std::filesystem::path folder) : folder_(std::move(folder)) {}

std::filesystem::path CompiledPlans::File(const std::string& problem,
                                          const std::string& choice) const {
  return folder_ / (HashBytes(problem + " = " + choice).Hex() + ".plan");
}

std::string CompiledPlans::Find(const std::string& problem, const std::string& choice) const {
  std::error_code ignored;
  const std::filesystem::path file = File(problem, choice);
  if (folder_.empty() || !std::filesystem::exists(file, ignored)) return "";
  try {
    std::string content = ReadFile(file);
    size_t end = content.find('\n');
    if (end == std::string::npos) return "";
    std::string json = content.substr(end + 1);
    return content.compare(0, end, FirstLine(json)) == 0 ? json : "";
  } catch (const Error&) {
    return "";  // it is made anew
  }
}

void CompiledPlans::Add(const std::string& problem, const std::string& choice,
                        const std::string& json) const {
  if (folder_.empty()) return;
  try {
    std::filesystem::create_directories(folder_);
    WriteFileAtomic(File(problem, choice), FirstLine(json) + "\n" + json);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "note: a compiled plan isn't kept: %s\n", e.what());
  }
}

}  // namespace xp::graph::cuda
