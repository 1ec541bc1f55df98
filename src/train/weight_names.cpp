#include "exp/train/weight_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "exp/base/error.h"

namespace xp::train {
namespace {

// A name begins with `theirs`; `#` stands for a number, which is carried over.
struct Rule {
  std::string_view theirs, ours;
};

constexpr std::array kMmdetection = {
    Rule{"neck.lateral_convs.#.conv.", "backbone.fpn.inner_blocks.#.0."},
    Rule{"neck.fpn_convs.#.conv.", "backbone.fpn.layer_blocks.#.0."},
    Rule{"rpn_head.rpn_conv.", "rpn.head.conv.0.0."},
    Rule{"rpn_head.rpn_cls.", "rpn.head.cls_logits."},
    Rule{"rpn_head.rpn_reg.", "rpn.head.bbox_pred."},
    Rule{"roi_head.bbox_head.shared_fcs.0.", "roi_heads.box_head.fc6."},
    Rule{"roi_head.bbox_head.shared_fcs.1.", "roi_heads.box_head.fc7."},
    Rule{"roi_head.bbox_head.fc_cls.", "roi_heads.box_predictor.cls_score."},
    Rule{"roi_head.bbox_head.fc_reg.", "roi_heads.box_predictor.bbox_pred."},
    // SSD300. Of VGG16, torchvision has the layers from the fourth pool on in `extra`.
    Rule{"backbone.features.24.", "backbone.extra.0.1."},
    Rule{"backbone.features.26.", "backbone.extra.0.3."},
    Rule{"backbone.features.28.", "backbone.extra.0.5."},
    Rule{"backbone.features.31.", "backbone.extra.0.7.1."},
    Rule{"backbone.features.33.", "backbone.extra.0.7.3."},
    Rule{"backbone.features.", "backbone.features."},
    Rule{"neck.l2_norm.weight", "backbone.scale_weight"},
    Rule{"neck.extra_layers.0.0.conv.", "backbone.extra.1.0."},
    Rule{"neck.extra_layers.0.1.conv.", "backbone.extra.1.2."},
    Rule{"neck.extra_layers.1.0.conv.", "backbone.extra.2.0."},
    Rule{"neck.extra_layers.1.1.conv.", "backbone.extra.2.2."},
    Rule{"neck.extra_layers.2.0.conv.", "backbone.extra.3.0."},
    Rule{"neck.extra_layers.2.1.conv.", "backbone.extra.3.2."},
    Rule{"neck.extra_layers.3.0.conv.", "backbone.extra.4.0."},
    Rule{"neck.extra_layers.3.1.conv.", "backbone.extra.4.2."},
    Rule{"bbox_head.cls_convs.#.0.", "head.classification_head.module_list.#."},
    Rule{"bbox_head.reg_convs.#.0.", "head.regression_head.module_list.#."},
    // The same before mmdetection 2.14.
    Rule{"backbone.l2_norm.weight", "backbone.scale_weight"},
    Rule{"backbone.extra.0.", "backbone.extra.1.0."},
    Rule{"backbone.extra.1.", "backbone.extra.1.2."},
    Rule{"backbone.extra.2.", "backbone.extra.2.0."},
    Rule{"backbone.extra.3.", "backbone.extra.2.2."},
    Rule{"backbone.extra.4.", "backbone.extra.3.0."},
    Rule{"backbone.extra.5.", "backbone.extra.3.2."},
    Rule{"backbone.extra.6.", "backbone.extra.4.0."},
    Rule{"backbone.extra.7.", "backbone.extra.4.2."},
    Rule{"bbox_head.cls_convs.#.", "head.classification_head.module_list.#."},
    Rule{"bbox_head.reg_convs.#.", "head.regression_head.module_list.#."},
    Rule{"backbone.", "backbone.body."},
};

// torchvision before 0.13 had no block around these convolutions.
constexpr std::array kOldTorchvision = {
    Rule{"backbone.fpn.inner_blocks.#.weight", "backbone.fpn.inner_blocks.#.0.weight"},
    Rule{"backbone.fpn.inner_blocks.#.bias", "backbone.fpn.inner_blocks.#.0.bias"},
    Rule{"backbone.fpn.layer_blocks.#.weight", "backbone.fpn.layer_blocks.#.0.weight"},
    Rule{"backbone.fpn.layer_blocks.#.bias", "backbone.fpn.layer_blocks.#.0.bias"},
    Rule{"rpn.head.conv.weight", "rpn.head.conv.0.0.weight"},
    Rule{"rpn.head.conv.bias", "rpn.head.conv.0.0.bias"},
};

// Matches `pattern` at the start of `name`; returns what stands in the place of `#` and the rest.
std::optional<std::pair<std::string, std::string>> Match(std::string_view pattern,
                                                         std::string_view name) {
  size_t hash = pattern.find('#');
  if (hash == std::string_view::npos) {
    if (!name.starts_with(pattern)) return std::nullopt;
    return std::pair(std::string(), std::string(name.substr(pattern.size())));
  }
  if (!name.starts_with(pattern.substr(0, hash))) return std::nullopt;
  size_t end = std::min(name.find_first_not_of("0123456789", hash), name.size());
  std::string_view after = pattern.substr(hash + 1);
  if (end == hash || !name.substr(end).starts_with(after)) return std::nullopt;
  return std::pair(std::string(name.substr(hash, end - hash)),
                   std::string(name.substr(end + after.size())));
}

std::string Fill(std::string_view pattern, const std::string& number, const std::string& rest) {
  std::string name(pattern);
  size_t hash = name.find('#');
  if (hash != std::string::npos) name.replace(hash, 1, number);
  return name + rest;
}

template <typename Rules>
std::optional<std::string> Apply(const Rules& rules, std::string_view name, bool backwards) {
  for (const Rule& rule : rules) {
    auto match = Match(backwards ? rule.ours : rule.theirs, name);
    if (match) return Fill(backwards ? rule.theirs : rule.ours, match->first, match->second);
  }
  return std::nullopt;
}

// timm's names for squeeze-and-excitation are ours (`se.fc1`); Cadena's senet names came before
// them.
std::string FromOldSenet(std::string name) {
  if (name.starts_with("layer0.")) name = name.substr(7);
  if (name.starts_with("last_linear.")) name = "fc." + name.substr(12);
  size_t se = name.find(".se_module.");
  if (se != std::string::npos) name.replace(se, 11, ".se.");
  return name;
}

// Where the model's part of the name begins: at the first word that a model's names begin with.
size_t RootOf(std::string_view name) {
  static const std::set<std::string_view> kRoots = {
      "backbone", "neck",     "rpn",   "rpn_head",    "roi_heads", "roi_head", "bbox_head",
      "head",     "features", "conv1", "bn1",         "layer0",    "layer1",   "layer2",
      "layer3",   "layer4",   "fc",    "last_linear", "classifier"};
  for (size_t at = 0; at < name.size();) {
    const size_t dot = std::min(name.find('.', at), name.size());
    if (kRoots.contains(name.substr(at, dot - at))) return at;
    at = dot + 1;
  }
  return std::string_view::npos;
}

// mmpretrain's SE layers hold their convolutions in blocks.
std::string Replaced(std::string name, std::string_view from, std::string_view to) {
  size_t at = name.find(from);
  return at == std::string::npos ? name : name.replace(at, from.size(), to);
}

std::string FromSeLayer(std::string name) {
  return Replaced(Replaced(std::move(name), ".se_layer.conv1.conv.", ".se.fc1."),
                  ".se_layer.conv2.conv.", ".se.fc2.");
}

std::string ToSeLayer(std::string name) {
  return Replaced(Replaced(std::move(name), ".se.fc1.", ".se_layer.conv1.conv."), ".se.fc2.",
                  ".se_layer.conv2.conv.");
}

}  // namespace

const char* NameStyleName(NameStyle style) {
  switch (style) {
    case NameStyle::kTorchvision:
      return "torchvision";
    case NameStyle::kMmdetection:
      return "mmdetection";
    case NameStyle::kTimm:
      return "timm";
  }
  return "";
}

std::string WrapperPrefix(const TensorFile& file) {
  std::map<std::string, size_t, std::less<>> tensors;  // of the model behind each prefix
  for (const TensorInfo& tensor : file.tensors()) {
    const size_t root = RootOf(tensor.name);
    if (root == std::string::npos) continue;
    const std::string_view prefix = std::string_view(tensor.name).substr(0, root);
    auto at = tensors.find(prefix);
    if (at == tensors.end()) at = tensors.emplace(prefix, 0).first;
    ++at->second;
  }
  size_t most = 0;
  for (const auto& [prefix, count] : tensors) most = std::max(most, count);
  auto bare = tensors.find("");
  if (most == 0 || (bare != tensors.end() && bare->second == most)) return "";
  std::vector<std::string> all, trained;
  for (const auto& [prefix, count] : tensors) {
    if (count < most) continue;
    all.push_back(prefix);
    if (!NamesAverage(prefix)) trained.push_back(prefix);
  }
  if (trained.size() == 1) return trained[0];
  if (all.size() == 1) return all[0];
  throw UsageError(
      {.what = fmt::format("holds several models, behind `{}` and `{}`", all[0], all[1]),
       .where = file.path(),
       .expected = "the weights of one",
       .next = fmt::format("save the one that is meant, without the `{}` of its names", all[0])});
}

NameStyle GuessStyle(const TensorFile& file) {
  const size_t wrapped = WrapperPrefix(file).size();
  for (const TensorInfo& tensor : file.tensors()) {
    const std::string_view name = std::string_view(tensor.name).substr(wrapped);
    for (const char* prefix :
         {"neck.", "rpn_head.", "roi_head.", "bbox_head.", "backbone.conv1.", "backbone.layer"}) {
      if (name.starts_with(prefix)) return NameStyle::kMmdetection;
    }
    if (name.starts_with("layer0.") || name.starts_with("last_linear.") ||
        name.find(".se_module.") != std::string_view::npos) {
      return NameStyle::kTimm;
    }
  }
  return NameStyle::kTorchvision;
}

std::optional<std::string> ToOurName(NameStyle style, std::string_view name) {
  switch (style) {
    case NameStyle::kMmdetection:
      return Apply(kMmdetection, FromSeLayer(std::string(name)), /*backwards=*/false);
    case NameStyle::kTimm:
      return FromOldSenet(std::string(name));
    case NameStyle::kTorchvision:
      break;
  }
  std::optional<std::string> modern = Apply(kOldTorchvision, name, /*backwards=*/false);
  return modern ? modern : std::string(name);
}

std::optional<std::string> FromOurName(NameStyle style, std::string_view name) {
  if (style == NameStyle::kMmdetection)
    return Apply(kMmdetection, ToSeLayer(std::string(name)), /*backwards=*/true);
  return std::string(name);
}

}  // namespace xp::train
