#include "exp/train/param_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "exp/base/error.h"
#include "exp/config/node.h"
#include "exp/config/reader.h"
#include "exp/train/weight_names.h"

namespace xp::train {
namespace {

bool FitsName(const std::string& pattern, const std::string& name) {
  if (pattern.find_first_of("*?[") == std::string::npos)
    return name.find(pattern) != std::string::npos;
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool Fits(const ParamRule& rule, const graph::Param& param) {
  if (FitsName(rule.pattern, param.name)) return true;
  std::optional<std::string> mmdetection = FromOurName(NameStyle::kMmdetection, param.name);
  return mmdetection && FitsName(rule.pattern, *mmdetection);
}

bool Before(const ParamRule& a, const ParamRule& b) {
  return a.pattern.size() != b.pattern.size() ? a.pattern.size() > b.pattern.size()
                                              : a.pattern < b.pattern;
}

// What a model's names begin with: "`backbone.body`, `backbone.fpn`, `rpn.head`", or "`layer1`".
std::vector<std::string> Beginnings(const graph::ParamLayout& layout) {
  constexpr size_t kMost = 8;
  std::vector<std::string> beginnings;
  for (const graph::Param& p : layout.params()) {
    size_t dot = p.name.find('.');
    bool part = p.name.starts_with("backbone.") || p.name.starts_with("roi_heads.");
    if (part && dot != std::string::npos) dot = p.name.find('.', dot + 1);
    std::string beginning = "`" + p.name.substr(0, dot) + "`";
    bool known = std::find(beginnings.begin(), beginnings.end(), beginning) != beginnings.end();
    if (!known && beginnings.size() < kMost) beginnings.push_back(beginning);
  }
  return beginnings;
}

double ReadMultiplier(const config::Reader& reader, const char* key) {
  double value = reader.Double(key, 1);
  if (value < 0) reader.Bad(key, "is negative", "a number from 0");
  return value;
}

}  // namespace

ParamMultipliers MultipliersOf(const graph::Param& param, const ParamGroups& groups) {
  const ParamRule* chosen = nullptr;
  for (const ParamRule& rule : groups.custom) {
    if (Fits(rule, param) && (chosen == nullptr || Before(rule, *chosen))) chosen = &rule;
  }
  if (chosen != nullptr) return {chosen->lr_mult, chosen->decay_mult};
  if (param.is_norm) return {1, groups.norm_decay_mult};
  if (param.is_bias) return {groups.bias_lr_mult, groups.bias_decay_mult};
  return {};
}

void CheckRules(const graph::ParamLayout& layout, const ParamGroups& groups) {
  const ParamRule* first = nullptr;
  std::string unfit;
  size_t count = 0;
  for (const ParamRule& rule : groups.custom) {
    bool used = std::any_of(layout.params().begin(), layout.params().end(),
                            [&](const graph::Param& p) { return Fits(rule, p); });
    if (used) continue;
    if (first == nullptr) first = &rule;
    unfit += fmt::format("{}`{}`", count++ == 0 ? "" : ", ", rule.pattern);
  }
  if (first == nullptr) return;
  throw UsageError(
      {.what = fmt::format("{} fit{} no parameter of this model", unfit, count == 1 ? "s" : ""),
       .where = first->where,
       .expected = fmt::format("a part of a parameter's name; they begin with {}",
                               fmt::join(Beginnings(layout), ", ")),
       .next = "list the names of a checkpoint with `exp weights show`, or delete the rule"});
}

std::vector<std::string> IdleRules(const graph::ParamLayout& layout, const ParamGroups& groups) {
  std::vector<std::string> idle;
  for (const ParamRule& rule : groups.custom) {
    bool trained = std::any_of(layout.params().begin(), layout.params().end(),
                               [&](const graph::Param& p) { return p.trainable && Fits(rule, p); });
    if (!trained) idle.push_back(rule.pattern);
  }
  return idle;
}

ParamGroups ReadParamGroups(const config::Reader& config) {
  ParamGroups groups;
  if (!config.Has("optimizer.paramwise_cfg")) return groups;
  config::Reader settings = config.Child("optimizer.paramwise_cfg");
  groups.norm_decay_mult = ReadMultiplier(settings, "norm_decay_mult");
  groups.bias_decay_mult = ReadMultiplier(settings, "bias_decay_mult");
  groups.bias_lr_mult = ReadMultiplier(settings, "bias_lr_mult");
  if (!settings.Has("custom_keys")) return groups;
  config::Reader rules = settings.Child("custom_keys");
  for (const config::Entry& entry : rules.node().entries()) {
    std::string path = config::JoinPath("", entry.key);
    config::Reader rule = rules.Child(path);
    groups.custom.push_back({entry.key, ReadMultiplier(rule, "lr_mult"),
                             ReadMultiplier(rule, "decay_mult"), rules.Where(path)});
  }
  return groups;
}

}  // namespace xp::train
