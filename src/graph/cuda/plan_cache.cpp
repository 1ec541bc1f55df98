#include "src/graph/cuda/plan_cache.h"

#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "exp/base/error.h"
#include "exp/base/file.h"

namespace xp::graph::cuda {
namespace {

std::string FileNamePart(std::string text) {
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '_';
  }
  return text;
}

}  // namespace

PlanCache::PlanCache(const std::string& folder, const std::string& gpu,
                     const std::string& cudnn_version) {
  if (folder.empty()) return;
  file_ = std::filesystem::path(folder) /
          (FileNamePart(gpu) + "-cudnn-" + FileNamePart(cudnn_version) + ".json");
  Load();
}

void PlanCache::Load() {
  std::error_code ignored;
  if (!std::filesystem::exists(file_, ignored)) return;
  try {
    nlohmann::json json = nlohmann::json::parse(ReadFile(file_));
    if (json.at("format") != 1) return;
    for (const auto& [problem, entry] : json.at("plans").items()) {
      // What this process chose stands.
      entries_.try_emplace(problem, Entry{entry.at("choice").get<std::string>(),
                                          entry.at("milliseconds").get<float>()});
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "note: the plan cache %s is not used, it can't be read: %s\n",
                 file_.c_str(), e.what());
  }
}

std::string PlanCache::Find(const std::string& problem) const {
  auto entry = entries_.find(problem);
  return entry == entries_.end() ? "" : entry->second.choice;
}

void PlanCache::Add(const std::string& problem, const std::string& choice, float milliseconds) {
  entries_[problem] = {choice, milliseconds};
  if (file_.empty()) return;
  Load();
  nlohmann::json plans = nlohmann::json::object();
  for (const auto& [name, entry] : entries_) {
    plans[name] = {{"choice", entry.choice}, {"milliseconds", entry.milliseconds}};
  }
  try {
    std::filesystem::create_directories(file_.parent_path());
    WriteFileAtomic(file_, nlohmann::json{{"format", 1}, {"plans", plans}}.dump(1) + "\n");
  } catch (const std::exception& e) {
    // A cache that can't be written costs time at the next start, nothing else.
    std::fprintf(stderr, "note: the plan cache isn't kept: %s\n", e.what());
    file_.clear();
  }
}

}  // namespace xp::graph::cuda
