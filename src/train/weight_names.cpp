#include "exp/train/weight_names.h"

#include <algorithm>
#include <array>
#include <utility>

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
  std::string prefix;
  for (bool found = !file.tensors().empty(); found;) {
    found = false;
    for (const char* wrapper : {"module.", "model.", "_orig_mod."}) {
      const std::string longer = prefix + wrapper;
      if (!std::all_of(file.tensors().begin(), file.tensors().end(),
                       [&](const TensorInfo& t) { return t.name.starts_with(longer); }))
        continue;
      prefix = longer;
      found = true;
      break;
    }
  }
  return prefix;
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
      return Apply(kMmdetection, name, /*backwards=*/false);
    case NameStyle::kTimm:
      return FromOldSenet(std::string(name));
    case NameStyle::kTorchvision:
      break;
  }
  std::optional<std::string> modern = Apply(kOldTorchvision, name, /*backwards=*/false);
  return modern ? modern : std::string(name);
}

std::optional<std::string> FromOurName(NameStyle style, std::string_view name) {
  if (style == NameStyle::kMmdetection) return Apply(kMmdetection, name, /*backwards=*/true);
  return std::string(name);
}

}  // namespace xp::train
