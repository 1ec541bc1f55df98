#include "exp/train/param_groups.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <optional>

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

double ReadMultiplier(const config::Reader& reader, const char* key) {
  double value = reader.Double(key, 1);
  if (!std::isfinite(value) || value < 0)
    reader.Bad(key, fmt::format("is {}", value), "a number from 0");
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
  for (const ParamRule& rule : groups.custom) {
    bool used = std::any_of(layout.params().begin(), layout.params().end(),
                            [&](const graph::Param& p) { return Fits(rule, p); });
    if (used) continue;
    throw UsageError(
        {.what = fmt::format("`{}` fits no parameter of this model", rule.pattern),
         .where = rule.where,
         .expected = "a part of a parameter's name, such as `backbone` or `rpn.head`",
         .next = "list the names of a checkpoint with `exp weights show`, or delete the rule"});
  }
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
