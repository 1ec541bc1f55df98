#include "exp/graph/step_passes.h"

#include <array>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

#include "exp/base/error.h"
#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

constexpr std::array<std::pair<const char*, bool StepPasses::*>, 8> kPasses = {
    {{"sums", &StepPasses::sums},
     {"pairs", &StepPasses::pairs},
     {"pool", &StepPasses::pool},
     {"squeeze", &StepPasses::squeeze},
     {"dgrad", &StepPasses::dgrad},
     {"dgrad_tf32", &StepPasses::dgrad_tf32},
     {"strided", &StepPasses::strided},
     {"gram", &StepPasses::gram}}};

std::vector<std::string> Names(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream parts(text);
  for (std::string name; std::getline(parts, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

bool StepPasses::*Find(const std::string& name, const char* where) {
  std::string expected = "all";
  for (const auto& [text, member] : kPasses) {
    if (name == text) return member;
    expected += std::string(", ") + text;
  }
  throw UsageError(
      {.what = "there is no step pass named " + name, .where = where, .expected = expected});
}

}  // namespace

void RunStepPasses(Graph& g, const StepPasses& passes) {
  if (passes.squeeze) JoinSqueezes(g);
  if (passes.pairs) JoinPairs(g);
  if (passes.pool) JoinPools(g);
  if (passes.gram) UseGram(g, passes.gram_bytes);
  if (passes.sums) FoldSums(g);
  if (passes.dgrad || passes.dgrad_tf32) {
    JoinDgrads(g, {.bf16 = passes.dgrad, .f32 = passes.dgrad_tf32});
  }
  if (passes.strided) HalveDgrads(g);
}

StepPasses AllowedStepPasses(StepPasses all) {
  const char* off = std::getenv("EXP_FUSION_OFF");
  for (const std::string& name : Names(off == nullptr ? "" : off)) {
    if (name == "all") return {.gram_bytes = all.gram_bytes};
    all.*Find(name, "EXP_FUSION_OFF") = false;
  }
  return all;
}

StepPasses RecordedStepPasses(StepPasses all, const std::string& text) {
  StepPasses recorded{.gram_bytes = all.gram_bytes};
  for (const std::string& name : Names(text)) {
    if (name != "none") recorded.*Find(name, "the record's step passes") = true;
  }
  return recorded;
}

std::string StepPassesText(const StepPasses& passes) {
  std::string text;
  for (const auto& [name, member] : kPasses) {
    if (passes.*member) text += (text.empty() ? "" : ",") + std::string(name);
  }
  return text.empty() ? "none" : text;
}

}  // namespace xp::graph
