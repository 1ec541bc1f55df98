#include "src/models/config_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

namespace xp::models {

using config::Reader;

float ReadFloat(const Reader& r, const char* path, double fallback) {
  return static_cast<float>(r.Double(path, fallback));
}

int ReadPositive(const Reader& r, const char* path, int fallback) {
  return r.IntWithin(path, fallback, 1, 1000000);
}

int ReadPositive(const Reader& r, const char* path) {
  r.Int(path);  // throws where it isn't
  return ReadPositive(r, path, 0);
}

void RequireNumber(const Reader& r, const char* path, double only) {
  if (!r.Has(path) || r.Double(path) == only) return;
  r.Bad(path, fmt::format("{} is not what this model does", r.Double(path)),
        fmt::format("{:g}, or nothing", only));
}

void RequireNumbers(const Reader& r, const char* path, const std::vector<double>& only) {
  if (!r.Has(path) || r.Doubles(path) == only) return;
  r.Bad(path, "is not what this model has",
        fmt::format("[{:g}], or nothing", fmt::join(only, ", ")));
}

namespace {

graph::NormMode ReadNorm(const Reader& backbone) {
  std::string type = backbone.Choice("norm_cfg.type", {"BN", "SyncBN", "FrozenBN"}, "BN");
  bool eval = backbone.Bool("norm_eval", false);
  bool grad = backbone.Bool("norm_cfg.requires_grad", true);
  if (type == "FrozenBN") return graph::NormMode::kFrozen;
  if (!eval) return graph::NormMode::kTrain;
  return grad ? graph::NormMode::kEval : graph::NormMode::kFrozen;
}

// A narrower network than the published ones rounds its widths down: none may come to nothing, and
// the widest (of the last stage) to no more than a tensor can have.
void CheckWidths(const Reader& r, const ResNetOptions& o) {
  if (!o.bottleneck()) return;
  constexpr int64_t kMost = 1 << 20;
  const int64_t group = int64_t{o.base_channels} * o.width_per_group;
  if (group < 64) {
    r.Bad("base_channels",
          fmt::format("leaves no channel in a group, with base_width {}", o.width_per_group),
          fmt::format("at least {}", (64 + o.width_per_group - 1) / o.width_per_group));
  }
  if (o.squeeze_excite && o.base_channels < 4)
    r.Bad("base_channels", "leaves no channel between squeeze and excitation", "at least 4");
  if (8 * group / 64 > kMost / o.groups || 32 * int64_t{o.base_channels} > kMost) {
    r.Bad("base_channels", "makes the last stage wider than any memory",
          fmt::format("base_channels, base_width and groups for at most {} channels", kMost));
  }
}

}  // namespace

ResNetOptions ReadBackbone(const Reader& r) {
  ResNetOptions o;
  std::string type = r.Choice("type", {"ResNet", "ResNeXt", "SEResNeXt"}, "ResNet");
  int64_t depth = r.Int("depth", 50);
  bool next = type != "ResNet";
  bool known =
      depth == 50 || depth == 101 || depth == 152 || (!next && (depth == 18 || depth == 34));
  if (!known)
    r.Bad("depth", type + " has no depth " + std::to_string(depth),
          next ? "50, 101 or 152" : "18, 34, 50, 101 or 152");
  o.depth = static_cast<int>(depth);
  o.groups = ReadPositive(r, "groups", next ? 32 : 1);
  o.width_per_group = ReadPositive(r, "base_width", next ? 4 : 64);
  if (depth < 50 && (o.groups != 1 || o.width_per_group != 64))
    r.Bad("groups", "basic blocks have no groups", "1");
  o.squeeze_excite = type == "SEResNeXt";
  o.frozen_stages = r.IntWithin("frozen_stages", -1, -1, 4) + 1;  // mmdetection: -1 none, 0 stem
  o.norm = ReadNorm(r);
  o.norm_eps = ReadFloat(r, "norm_cfg.eps", 1e-5);
  o.norm_momentum = ReadFloat(r, "norm_cfg.momentum", 0.1);
  o.stride_in_first = r.Choice("style", {"pytorch", "caffe"}, "pytorch") == "caffe";
  o.base_channels = ReadPositive(r, "base_channels", 64);
  o.zero_init_residual = r.Bool("zero_init_residual", false);
  o.checkpoint_blocks = r.Bool("with_cp", false);
  CheckWidths(r, o);
  return o;
}

void ReadNormalize(const Reader& model, graph::NormalizeAttrs& attrs) {
  for (auto [path, target] :
       {std::pair{"img_norm_cfg.mean", &attrs.mean}, {"img_norm_cfg.std", &attrs.std}}) {
    if (!model.Has(path)) continue;
    std::vector<double> values = model.Doubles(path);
    if (values.size() != 3)
      model.Bad(path, "has " + std::to_string(values.size()) + " values", "3: red, green, blue");
    // Networks of Caffe's weights have blue first; ours always see red first (load_weights.cpp).
    if (!model.Bool("img_norm_cfg.to_rgb", true)) std::swap(values[0], values[2]);
    for (size_t i = 0; i < 3; ++i) (*target)[i] = static_cast<float>(values[i] / 255.0);
  }
}

void ReadMatcher(const Reader& r, graph::Matcher& m) {
  m.positive = ReadFloat(r, "pos_iou_thr", m.positive);
  m.negative = ReadFloat(r, "neg_iou_thr", m.negative);
  m.low_quality = r.Bool("match_low_quality", m.low_quality);
  m.low_quality_min = ReadFloat(r, "min_pos_iou", m.low_quality_min);
  m.low_quality_to_best = r.Bool("low_quality_to_best", m.low_quality_to_best);
  RequireNumber(r, "ignore_iof_thr", -1);
  r.Choice("type", {"MaxIoUAssigner"}, "MaxIoUAssigner");
  if (!r.Bool("gt_max_assign_all", true))
    r.Bad("gt_max_assign_all", "all that tie for the best count here", "true, or nothing");
}

void ReadCoder(const Reader& r, graph::BoxCoder& coder) {
  RequireNumbers(r, "target_means", {0, 0, 0, 0});
  r.Choice("type", {"DeltaXYWHBBoxCoder"}, "DeltaXYWHBBoxCoder");
  // mmdetection gives standard deviations, torchvision their inverses as weights.
  if (!r.Has("target_stds")) return;
  std::vector<double> stds = r.Doubles("target_stds");
  if (stds.size() != 4) r.Bad("target_stds", "must have 4 values", "[0.1, 0.1, 0.2, 0.2]");
  for (size_t i = 0; i < 4; ++i) {
    if (!(stds[i] > 0)) r.Bad("target_stds", "must be positive", "four numbers > 0");
    coder.weights[i] = static_cast<float>(1 / stds[i]);
  }
}

}  // namespace xp::models
