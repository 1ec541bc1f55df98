#include "exp/graph/step_passes.h"

#include <array>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "exp/base/error.h"
#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

constexpr std::array<std::pair<const char*, bool StepPasses::*>, 5> kPasses = {
    {{"sums", &StepPasses::sums},
     {"pairs", &StepPasses::pairs},
     {"pool", &StepPasses::pool},
     {"squeeze", &StepPasses::squeeze},
     {"gram", &StepPasses::gram}}};

}  // namespace

void RunStepPasses(Graph& g, const StepPasses& passes) {
  if (passes.squeeze) JoinSqueezes(g);
  if (passes.pairs) JoinPairs(g);
  if (passes.pool) JoinPools(g);
  if (passes.gram) UseGram(g, passes.gram_bytes);
  if (passes.sums) FoldSums(g);
}

StepPasses AllowedStepPasses(StepPasses all) {
  const char* off = std::getenv("EXP_FUSION_OFF");
  std::istringstream names(off == nullptr ? "" : off);
  for (std::string name; std::getline(names, name, ',');) {
    bool known = name == "all" || name.empty();
    for (const auto& [text, member] : kPasses) {
      if (name != text && name != "all") continue;
      all.*member = false;
      known = true;
    }
    if (known) continue;
    std::string expected = "all";
    for (const auto& [text, member] : kPasses) expected += std::string(", ") + text;
    throw UsageError({.what = "there is no step pass named " + name,
                      .where = "EXP_FUSION_OFF",
                      .expected = expected});
  }
  return all;
}

std::string StepPassesText(const StepPasses& passes) {
  std::string text;
  for (const auto& [name, member] : kPasses) {
    if (passes.*member) text += (text.empty() ? "" : ",") + std::string(name);
  }
  return text.empty() ? "none" : text;
}

}  // namespace xp::graph
