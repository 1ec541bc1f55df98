#include "src/train/load_weights.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "exp/base/error.h"
#include "exp/train/checkpoint.h"

namespace xp::train {
namespace {

constexpr size_t kListed = 12;

std::string Listed(const std::vector<std::string>& lines) {
  std::string text;
  for (size_t i = 0; i < lines.size() && i < kListed; ++i) text += "\n    " + lines[i];
  if (lines.size() > kListed) text += fmt::format("\n    and {} more", lines.size() - kListed);
  return text;
}

bool Fits(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

bool IsReset(const std::string& name, const std::vector<std::string>& patterns) {
  if (Fits(name, patterns)) return true;
  std::optional<std::string> mmdetection = FromOurName(NameStyle::kMmdetection, name);
  return mmdetection && Fits(*mmdetection, patterns);
}

// What the file must have. States that only training has ("loss_scale", "optimizer.step") are in no
// file of weights; SSD's layers beyond VGG16's are in no classifier.
std::set<std::string> Needed(const graph::ParamLayout& layout, bool backbone_only) {
  std::set<std::string> names;
  auto add = [&](const std::string& name) {
    bool backbone = name.starts_with("backbone.body.") || name.starts_with("backbone.features.");
    if (backbone || !backbone_only) names.insert(name);
  };
  for (const graph::Param& p : layout.params()) add(p.name);
  for (const graph::StateVar& s : layout.states()) {
    if (s.name.ends_with(".running_mean") || s.name.ends_with(".running_var")) add(s.name);
  }
  return names;
}

bool IsFirstLayer(const std::string& name) {
  return name == "conv1.weight" || name == "backbone.body.conv1.weight" ||
         name == "backbone.features.0.weight";
}

// OIHW with three input channels.
void FlipChannels(NamedTensor* t) {
  if (t->shape.size() != 4 || t->shape[1] != 3) return;
  auto plane = static_cast<size_t>(t->shape[2] * t->shape[3]);
  for (size_t o = 0; o < static_cast<size_t>(t->shape[0]); ++o) {
    float* red = t->values.data() + o * 3 * plane;
    std::swap_ranges(red, red + plane, red + 2 * plane);
  }
}

Error OtherShapes(const std::string& path, const std::vector<std::string>& shapes) {
  return UsageError({.what = fmt::format("{} of the file's tensors don't fit the model:{}",
                                         shapes.size(), Listed(shapes)),
                     .where = path,
                     .next = "use weights of this model, or start these layers anew: "
                             "`reset: [roi_heads.box_predictor.*]` beside load_from"});
}

Error Missing(const std::string& path, const std::set<std::string>& missing) {
  std::vector<std::string> names(missing.begin(), missing.end());
  return UsageError(
      {.what = fmt::format("lacks {} tensors of the model:{}", names.size(), Listed(names)),
       .where = path,
       .expected = "weights of this model with names of torchvision, mmdetection or timm",
       .next = "see the file's names with `exp weights show`, or list the layers to start "
               "anew in `reset`"});
}

}  // namespace

std::vector<std::string> LoadWeights(const WeightSource& source, const graph::ParamLayout& layout,
                                     FlatState* state) {
  RenameOptions rename;
  rename.background = source.background;
  rename.as_backbone = source.backbone_only;
  std::unique_ptr<TensorFile> file = Rename(OpenTensorFile(source.path), rename);
  std::set<std::string> missing = Needed(layout, source.backbone_only);
  std::vector<std::string> other_shapes, initial;
  bool flip = source.flip_channels && !file->metadata().contains("exp.format");
  for (const TensorInfo& tensor : file->tensors()) {
    bool known = layout.FindParam(tensor.name) >= 0 || layout.FindState(tensor.name) >= 0;
    bool wanted = known && (!source.backbone_only || tensor.name.starts_with("backbone."));
    if (!wanted || !IsFloat(tensor.type) || IsReset(tensor.name, source.reset)) continue;
    missing.erase(tensor.name);
    const std::string average = EmaTensorName(tensor.name);
    bool use_average = source.averages && file->Find(average) != nullptr;
    NamedTensor values{tensor.name, tensor.shape,
                       file->ReadFloats(use_average ? average : tensor.name)};
    if (flip && IsFirstLayer(tensor.name)) FlipChannels(&values);
    try {
      ImportTensor(layout, values, {}, source.path, state);
    } catch (const Error& e) {
      other_shapes.push_back(fmt::format("{}, the model's {}", e.text().what, e.text().expected));
    }
  }
  if (!other_shapes.empty()) throw OtherShapes(source.path, other_shapes);
  for (auto at = missing.begin(); at != missing.end();) {
    if (!IsReset(*at, source.reset)) {
      ++at;
      continue;
    }
    initial.push_back(*at);
    at = missing.erase(at);
  }
  if (!missing.empty()) throw Missing(source.path, missing);
  return initial;
}

Background BackgroundOf(const config::Reader& config) {
  bool last = config.Has("model.roi_head.bbox_head") &&
              config.String("model.roi_head.bbox_head.background", "first") == "last";
  return last ? Background::kLast : Background::kFirst;
}

bool NamesInitialWeights(const config::Reader& config) {
  return config.Has("model.backbone.init_cfg") || config.Has("load_from");
}

void LoadInitialWeights(const config::Reader& config, const graph::ParamLayout& layout,
                        const std::function<void(const std::string&, const std::string&)>& warn,
                        FlatState* state) {
  WeightSource source;
  source.background = BackgroundOf(config);
  source.flip_channels = !config.Bool("model.img_norm_cfg.to_rgb", true);
  const char* key = "model.backbone.init_cfg.checkpoint";
  if (config.Has("model.backbone.init_cfg")) {
    source.path = config.String(key);
    if (source.path.find("://") != std::string::npos) {
      config.Bad(key, fmt::format("is the address `{}`", source.path),
                 "the path of a file on this machine",
                 "fetch the file and give its path; exp itself loads nothing from the network");
    }
    source.backbone_only = true;
    LoadWeights(source, layout, state);
  }
  if (!config.Has("load_from")) return;
  source.path = config.String("load_from");
  source.backbone_only = false;
  source.reset = config.Strings("reset", {});
  std::vector<std::string> left = LoadWeights(source, layout, state);
  if (!left.empty()) {
    warn("weights.reset", fmt::format("{} tensors start anew as `reset` asks, the first of them {}",
                                      left.size(), left[0]));
  }
}

}  // namespace xp::train
