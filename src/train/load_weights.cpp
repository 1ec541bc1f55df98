#include "src/train/load_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
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

// Where the layers with an output a class are: of Faster R-CNN, SSD, a classifier.
constexpr const char* kClassifierHead = "fc.";
constexpr const char* kHeads[] = {"roi_heads.box_predictor.", "head.", kClassifierHead};

const char* HeadOf(const graph::ParamLayout& layout) {
  for (const char* head : kHeads) {
    for (const graph::Param& p : layout.params())
      if (p.name.starts_with(head)) return head;
  }
  return "";
}

bool IsClassifier(const graph::ParamLayout& layout) {
  return std::none_of(layout.params().begin(), layout.params().end(),
                      [](const graph::Param& p) { return p.name.starts_with("backbone."); });
}

// Of a detector: its layers that a classifier's file has, too.
bool IsBackbone(const std::string& name) {
  return name.starts_with("backbone.body.") || name.starts_with("backbone.features.");
}

// What the file must have. States that only training has ("loss_scale", "optimizer.step") are in no
// file of weights; SSD's layers beyond VGG16's are in no classifier.
std::set<std::string> Needed(const graph::ParamLayout& layout, bool backbone_only) {
  std::set<std::string> names;
  const bool classifier = IsClassifier(layout);
  auto add = [&](const std::string& name) {
    bool backbone = classifier ? !name.starts_with(kClassifierHead) : IsBackbone(name);
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

struct OtherShape {
  std::string name, file, model;
};

Error OtherShapes(const std::string& path, const std::vector<OtherShape>& shapes,
                  const std::string& head) {
  std::vector<std::string> lines;
  bool others = false;
  for (const OtherShape& s : shapes) {
    lines.push_back(fmt::format("{} has shape {}, the model's {}", s.name, s.file, s.model));
    others = others || !s.name.starts_with(head);
  }
  return UsageError(
      {.what = fmt::format("{} of the file's tensors don't fit the model:{}", lines.size(),
                           Listed(lines)),
       .where = path,
       .next = others ? "use weights of this model, of its depth, width and type, or list the "
                        "layers to start anew in `reset` beside load_from"
                      : fmt::format("use weights of this model, or start its head anew: "
                                    "`reset: [{}*]` beside load_from",
                                    head)});
}

Error Missing(const TensorFile& file, const std::set<std::string>& missing, bool for_backbone) {
  std::vector<std::string> names(missing.begin(), missing.end());
  const std::string passed_over = UnreadText(file.unread());
  return UsageError(
      {.what = fmt::format("lacks {} tensors of the model:{}{}{}", names.size(), Listed(names),
                           passed_over.empty() ? "" : "\n    ", passed_over),
       .where = file.path(),
       .expected = "weights of this model with names of torchvision, mmdetection or timm",
       .next = for_backbone ? "a classifier's weights start the backbone: model.backbone.init_cfg: "
                              "{type: Pretrained, checkpoint: FILE} instead of load_from"
                            : "see the file's names with `exp weights show`, or list the layers "
                              "to start anew in `reset`"});
}

// A file's tensors for a model, found by names and shapes alone.
struct Match {
  struct Tensor {
    std::string name, source;  // the model's name, and the file's for its values
  };
  std::unique_ptr<TensorFile> file;
  std::vector<Tensor> tensors;
  std::vector<std::string> initial;  // left at their first values, as `reset` asks
};

// For a detector: a backbone alone, a classifier's above all.
bool IsBackboneAlone(const Match& match) {
  if (match.tensors.empty())
    return match.file->Find("conv1.weight") != nullptr ||
           match.file->Find("features.0.weight") != nullptr;
  return std::all_of(match.tensors.begin(), match.tensors.end(),
                     [](const Match::Tensor& tensor) { return IsBackbone(tensor.name); });
}

// Takes what `reset` names out of what is missing.
std::vector<std::string> TakeReset(const std::vector<std::string>& reset,
                                   std::set<std::string>* missing) {
  std::vector<std::string> initial;
  for (auto at = missing->begin(); at != missing->end();) {
    if (!IsReset(*at, reset)) {
      ++at;
      continue;
    }
    initial.push_back(*at);
    at = missing->erase(at);
  }
  return initial;
}

Match MatchWeights(const WeightSource& source, const graph::ParamLayout& layout) {
  RenameOptions rename;
  rename.background = source.background;
  const bool classifier = IsClassifier(layout);
  rename.as_backbone = source.backbone_only && !classifier;
  rename.as_classifier = classifier;
  Match match;
  match.file = Rename(OpenTensorFile(source.path), rename);
  std::set<std::string> missing = Needed(layout, source.backbone_only);
  for (const std::string& name : missing)
    if (!IsReset(name, source.reset)) match.file->RequireRead(name);
  std::vector<OtherShape> other_shapes;
  for (const TensorInfo& tensor : match.file->tensors()) {
    std::optional<graph::Shape> shape = ShapeInFiles(layout, tensor.name);
    const bool below = classifier ? !tensor.name.starts_with(kClassifierHead)
                                  : tensor.name.starts_with("backbone.");
    bool wanted = shape && (!source.backbone_only || below);
    if (!wanted || !IsFloat(tensor.type) || IsReset(tensor.name, source.reset)) continue;
    missing.erase(tensor.name);
    const std::string average = EmaTensorName(tensor.name);
    if (source.averages) match.file->RequireRead(average);
    bool use_average = source.averages && match.file->Find(average) != nullptr;
    match.tensors.push_back({tensor.name, use_average ? average : tensor.name});
    if (!SameShape(tensor.shape, *shape)) {
      other_shapes.push_back(
          {tensor.name, graph::ShapeText(tensor.shape), graph::ShapeText(*shape)});
    }
  }
  if (!other_shapes.empty()) throw OtherShapes(source.path, other_shapes, HeadOf(layout));
  match.initial = TakeReset(source.reset, &missing);
  if (missing.empty()) return match;
  const bool for_backbone = !classifier && !source.backbone_only && IsBackboneAlone(match);
  throw Missing(*match.file, missing, for_backbone);
}

std::string BackboneFile(const config::Reader& config) {
  config.Choice("model.backbone.init_cfg.type", {"Pretrained"}, "Pretrained");
  const char* key = "model.backbone.init_cfg.checkpoint";
  std::string path = config.String(key);
  if (path.find("://") != std::string::npos) {
    config.Bad(key, fmt::format("is the address `{}`", path), "the path of a file on this machine",
               "fetch the file and give its path; exp itself loads nothing from the network");
  }
  return path;
}

// A pattern that fits nothing would leave a head as the file has it, without a word.
std::vector<std::string> ReadReset(const config::Reader& config, const graph::ParamLayout& layout) {
  std::vector<std::string> patterns = config.Strings("reset", {});
  for (const std::string& pattern : patterns) {
    auto fits = [&](const auto& tensor) { return IsReset(tensor.name, {pattern}); };
    if (std::any_of(layout.params().begin(), layout.params().end(), fits) ||
        std::any_of(layout.states().begin(), layout.states().end(), fits))
      continue;
    config.Bad("reset", fmt::format("names `{}`, which fits no layer of this model", pattern),
               "whole names, with * for the rest: `roi_heads.box_predictor.*`",
               "list the names of a checkpoint with `exp weights show`, or delete the pattern");
  }
  return patterns;
}

// The files that the config names, in the order in which they are read.
std::vector<WeightSource> InitialSources(const config::Reader& config,
                                         const graph::ParamLayout& layout) {
  std::vector<WeightSource> sources;
  WeightSource source;
  source.background = BackgroundOf(config);
  source.flip_channels = !config.Bool("model.img_norm_cfg.to_rgb", true);
  if (config.Has("model.backbone.init_cfg")) {
    source.path = BackboneFile(config);
    source.backbone_only = true;
    sources.push_back(source);
  }
  if (config.Has("load_from")) {
    source.path = config.String("load_from");
    source.backbone_only = false;
    source.reset = ReadReset(config, layout);
    sources.push_back(source);
  }
  return sources;
}

}  // namespace

std::vector<data::Category> RecordedCategories(const TensorFile& file) {
  std::vector<data::Category> categories;
  auto found = file.metadata().find("exp.categories");
  if (found == file.metadata().end()) return categories;
  nlohmann::json list = nlohmann::json::parse(found->second, nullptr, false);
  if (!list.is_array()) return categories;
  for (const nlohmann::json& c : list) {
    if (!c.is_object() || !c.value("id", nlohmann::json()).is_number_integer()) return {};
    if (!c.value("name", nlohmann::json()).is_string()) return {};
    categories.push_back({c["id"].get<int64_t>(), c["name"].get<std::string>()});
  }
  return categories;
}

namespace {

// A head of as many classes fits, whatever they are.
bool TakesOverOtherClasses(const WeightSource& source, const LoadedWeights& loaded,
                           const std::string& head, const std::vector<std::string>& classes) {
  if (source.backbone_only || classes.empty() || loaded.classes.empty()) return false;
  const bool anew = std::any_of(loaded.initial.begin(), loaded.initial.end(),
                                [&](const std::string& name) { return name.starts_with(head); });
  return !anew && loaded.classes != classes;
}

}  // namespace

LoadedWeights LoadWeights(const WeightSource& source, const graph::ParamLayout& layout,
                          FlatState* state) {
  Match match = MatchWeights(source, layout);
  bool flip = source.flip_channels && !match.file->metadata().contains("exp.format");
  for (const Match::Tensor& tensor : match.tensors) {
    NamedTensor values{tensor.name, match.file->Find(tensor.source)->shape,
                       match.file->ReadFloats(tensor.source)};
    if (flip && IsFirstLayer(tensor.name)) FlipChannels(&values);
    ImportTensor(layout, values, {}, source.path, state);
  }
  LoadedWeights loaded{match.initial, UnreadText(match.file->unread()), {}};
  for (data::Category& category : RecordedCategories(*match.file))
    loaded.classes.push_back(std::move(category.name));
  return loaded;
}

void CheckWeights(const WeightSource& source, const graph::ParamLayout& layout) {
  MatchWeights(source, layout);
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
                        const std::vector<std::string>& classes,
                        const std::function<void(const std::string&, const std::string&)>& warn,
                        FlatState* state) {
  for (const WeightSource& source : InitialSources(config, layout)) {
    LoadedWeights loaded = LoadWeights(source, layout, state);
    if (!loaded.passed_over.empty())
      warn("weights.passed_over", fmt::format("{}: {}", source.path, loaded.passed_over));
    const std::string head = HeadOf(layout);
    if (TakesOverOtherClasses(source, loaded, head, classes)) {
      warn("weights.classes",
           fmt::format("the head of {} was trained on {}, these data have {}: `reset: [{}*]` would "
                       "begin it anew",
                       source.path, fmt::join(loaded.classes, ", "), fmt::join(classes, ", "),
                       head));
    }
    if (loaded.initial.empty()) continue;
    warn("weights.reset", fmt::format("{} tensors start anew as `reset` asks, the first of them {}",
                                      loaded.initial.size(), loaded.initial[0]));
  }
}

void CheckInitialWeights(const config::Reader& config, const graph::ParamLayout& layout,
                         const std::function<void(const std::string& path)>& missing) {
  for (const WeightSource& source : InitialSources(config, layout)) {
    std::error_code error;
    if (std::filesystem::exists(source.path, error)) {
      CheckWeights(source, layout);
    } else {
      missing(source.path);
    }
  }
}

}  // namespace xp::train
