// Which parameters learn faster, slower or without weight decay: `optimizer.paramwise_cfg`, as
// mmcv's DefaultOptimizerConstructor means it (mmcv/runner/optimizer/default_constructor.py).
#pragma once

#include <string>
#include <vector>

#include "exp/graph/params.h"

namespace xp::config {
class Reader;
}

namespace xp::train {

// A parameter whose name contains `pattern` (or matches it, where it has * or ?). Names are tried
// as ours and as mmdetection's, so `neck` or `roi_head.bbox_head` work too.
struct ParamRule {
  std::string pattern;
  double lr_mult = 1, decay_mult = 1;
  std::string where;  // "configs/a.yaml:3:7"
};

struct ParamGroups {
  double norm_decay_mult = 1;  // weight and bias of normalisation layers
  double bias_decay_mult = 1;  // biases of other layers
  double bias_lr_mult = 1;
  // Of several rules that fit, the longest pattern counts, of equally long ones the first by
  // alphabet; a parameter with a rule has no other multiplier.
  std::vector<ParamRule> custom;
};

struct ParamMultipliers {
  double lr = 1, decay = 1;
};
ParamMultipliers MultipliersOf(const graph::Param& param, const ParamGroups& groups);

// Throws UsageError that lists the rules that fit no parameter of the model: a typing mistake would
// otherwise train with other settings than the config says.
void CheckRules(const graph::ParamLayout& layout, const ParamGroups& groups);
// Patterns of the rules that fit only parameters that aren't trained, or none.
std::vector<std::string> IdleRules(const graph::ParamLayout& layout, const ParamGroups& groups);

// From a whole config.
ParamGroups ReadParamGroups(const config::Reader& config);

}  // namespace xp::train
