#include "src/graph/cuda/dnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "exp/base/error.h"
#include "src/graph/cuda/plan_tuner.h"

namespace xp::graph::cuda {
namespace {

constexpr const char* kSeparator = " = ";
constexpr const char* kMadeFor = "device";

std::map<std::string, std::string> ParseNotes(const std::vector<std::string>& notes) {
  std::map<std::string, std::string> plans;
  for (const std::string& note : notes) {
    size_t at = note.find(kSeparator);
    if (at == std::string::npos) {
      throw UsageError({.what = "a recorded cuDNN plan can't be read: " + note,
                        .expected = "<problem> = <variant>:<engine>"});
    }
    plans[note.substr(0, at)] = note.substr(at + std::string(kSeparator).size());
  }
  return plans;
}

bool IsNeighbour(const ConvProblem& a, const ConvProblem& b) {
  ConvProblem same = b;
  same.n = a.n, same.h = a.h, same.w = a.w, same.p = a.p, same.q = a.q;
  int64_t pixels = a.n * a.p * a.q;
  int64_t others = b.n * b.p * b.q;
  return same.Key() == a.Key() && pixels <= 2 * others && others <= 2 * pixels;
}

}  // namespace

Dnn::Dnn(const Device& device, const CudaOptions& options, cudaStream_t stream)
    : stream_(stream),
      engines_tried_(static_cast<size_t>(std::max(1, options.engines_tried))),
      handle_(stream),
      target_(ConvTarget::OfHandle(handle_.get())),
      cache_(options.plan_cache, device.name, OpenCudnn().version_text()),
      compiled_(cache_.folder()),
      made_for_(device.name + ", cuDNN " + OpenCudnn().version_text()),
      named_(ParseNotes(options.plans)),
      maker_(target_, engines_tried_, stream, compiled_) {
  // Engines are numbered anew in each version, and what is best depends on the device.
  auto for_what = named_.find(kMadeFor);
  if (!named_.empty() && (for_what == named_.end() || for_what->second != made_for_)) {
    std::fprintf(stderr, "note: the recorded cuDNN plans are for %s, not for %s: others are used\n",
                 for_what == named_.end() ? "an unknown device" : for_what->second.c_str(),
                 made_for_.c_str());
    named_.clear();
  }
}

std::shared_ptr<ConvPlan> Dnn::Build(const ConvProblem& problem, const std::string& choice,
                                     std::string* why) {
  MadePlans made = maker_.Take({problem, choice});
  if (!made.candidates.empty()) return made.candidates[0].plan;
  *why = made.why;
  return nullptr;
}

// From a record, else from the disk; empty when the problem is new.
std::string Dnn::RememberedChoice(const std::string& key) const {
  auto named = named_.find(key);
  return named != named_.end() ? named->second : cache_.Find(key);
}

void Dnn::Announce(const std::vector<ConvProblem>& problems) {
  std::vector<PlanMaker::Request> requests;
  std::vector<const ConvProblem*> seen;
  for (const auto& [key, use] : in_use_) seen.push_back(&use.problem);
  for (const ConvProblem& problem : problems) {
    std::string key = problem.Key();
    if (in_use_.count(key) > 0) continue;
    std::string choice = RememberedChoice(key);
    auto related = [&](const ConvProblem* other) {
      return choice.empty() ? IsNeighbour(problem, *other) : other->Key() == key;
    };
    if (std::any_of(seen.begin(), seen.end(), related)) continue;
    seen.push_back(&problem);
    requests.push_back({problem, choice});
  }
  maker_.Start(std::move(requests));
}

// An epoch's last, smaller batch and images that stand instead of lying make problems that differ
// in the number of pixels only: what won before is taken without another search.
TunedPlan Dnn::Borrow(const ConvProblem& problem) {
  TunedPlan tuned;
  for (const auto& [key, use] : in_use_) {
    if (!IsNeighbour(problem, use.problem)) continue;
    tuned.choice = use.choice;
    tuned.plan = Build(problem, use.choice, &tuned.why);
    if (tuned.plan && TryPlan(problem, &tuned, stream_)) return tuned;
  }
  return {};
}

std::shared_ptr<ConvPlan> Dnn::Plan(const ConvProblem& problem) {
  std::string key = problem.Key();
  if (auto known = in_use_.find(key); known != in_use_.end()) return known->second.plan;

  std::string why;
  if (auto named = named_.find(key); named != named_.end()) {
    if (auto plan = Build(problem, named->second, &why)) return Use(problem, named->second, plan);
    std::fprintf(stderr,
                 "note: the recorded cuDNN plan %s for %s can't be made, another is used: %s\n",
                 named->second.c_str(), key.c_str(), why.c_str());
  }
  if (std::string choice = cache_.Find(key); !choice.empty()) {
    if (auto plan = Build(problem, choice, &why)) return Use(problem, choice, plan);
  }
  TunedPlan tuned = Borrow(problem);
  if (!tuned.plan)
    tuned = FastestPlan(problem, maker_.Take({problem, ""}), &rates_, stream_, stop_);
  if (!tuned.plan) {
    throw UsageError(
        {.what = fmt::format("cuDNN {} has no {}plan for a convolution: {}", version_text(),
                             problem.deterministic ? "repeatable " : "", tuned.why),
         .where = key,
         .next = problem.deterministic ? "pass --set deterministic=false, another precision, or "
                                         "--device cpu"
                                       : "pass another precision or --device cpu"});
  }
  if (tuned.measured) cache_.Add(key, tuned.choice, tuned.milliseconds);
  return Use(problem, tuned.choice, tuned.plan);
}

std::shared_ptr<ConvPlan> Dnn::Use(const ConvProblem& problem, const std::string& choice,
                                   std::shared_ptr<ConvPlan> plan) {
  const std::string key = problem.Key();
  if (std::string json = plan->Compiled(); !json.empty()) compiled_.Add(key, choice, json);
  in_use_[key] = {problem, choice, plan};
  return plan;
}

std::vector<std::string> Dnn::PlanNotes() const {
  std::vector<std::string> notes;
  if (in_use_.empty()) return notes;
  notes.reserve(in_use_.size() + 1);
  notes.push_back(std::string(kMadeFor) + kSeparator + made_for_);
  for (const auto& [key, use] : in_use_) notes.push_back(key + kSeparator + use.choice);
  return notes;
}

}  // namespace xp::graph::cuda
