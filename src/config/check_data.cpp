#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "src/config/checker.h"

namespace xp::config {
namespace {

namespace fs = std::filesystem;

// Heads whose num_classes the data's classes decide; a list of heads is a cascade.
std::vector<std::string> HeadsWithClasses(const Node& root) {
  std::vector<std::string> found;
  for (const char* head :
       {"model.roi_head.bbox_head", "model.roi_head.mask_head", "model.bbox_head",
        "model.mask_head", "model.head", "model.detector.roi_head.bbox_head"}) {
    const Node* node = root.At(head);
    if (node == nullptr) continue;
    if (node->IsDict()) found.push_back(fmt::format("{}.num_classes", head));
    for (size_t i = 0; node->IsList() && i < node->size(); ++i)
      found.push_back(fmt::format("{}.{}.num_classes", head, i));
  }
  return found;
}

// The class names that a config of exp or another project gives for training, and their place.
const Node* GivenClasses(const Checker& checker, std::string* path) {
  for (const char* dataset :
       {"data.train", "data.train.dataset", "train_dataloader.dataset",
        "train_dataloader.dataset.dataset", "train_dataloader.dataset.dataset.dataset"}) {
    for (const char* key : {"classes", "metainfo.classes", "metainfo.CLASSES"}) {
      *path = fmt::format("{}.{}", dataset, key);
      const Node* node = checker.root.At(*path);
      if (node != nullptr && node->IsList() && node->size() > 0) return node;
    }
  }
  return nullptr;
}

void CompareHeads(Checker& checker, const std::vector<std::string>& names,
                  const std::string& from) {
  // A head that matches words has as many "classes" as a text has tokens (GLIP, Grounding DINO).
  if (checker.root.At("model.language_model") != nullptr) return;
  for (const std::string& head : HeadsWithClasses(checker.root)) {
    const int64_t classes = checker.Int(head.c_str(), 0);
    // Other projects' heads that don't tell classes apart have one.
    if (!checker.own && classes == 1) continue;
    if (classes == 0 || classes == static_cast<int64_t>(names.size())) continue;
    checker.Add(
        "classes", Level::kError, head,
        fmt::format(
            "num_classes is {}, but {} has {}: {}", classes, from, names.size(),
            fmt::join(names.begin(),
                      names.begin() + static_cast<long>(std::min<size_t>(names.size(), 20)), ", ")),
        fmt::format("set {} to {}", head, names.size()));
  }
}

bool Holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void Classes(Checker& checker) {
  std::string at;
  std::vector<std::string> names;
  const Node* given = GivenClasses(checker, &at);
  if (given != nullptr) {
    for (const Node& name : given->items()) {
      if (!name.IsString()) return;
      names.push_back(name.AsString());
    }
  }
  const DataFacts* facts = checker.own ? checker.TrainFacts() : nullptr;
  if (facts == nullptr) {
    if (given != nullptr) CompareHeads(checker, names, fmt::format("`{}`", at));
    return;
  }
  for (const std::string& name : names) {
    if (Holds(facts->classes, name)) continue;
    checker.Add("classes", Level::kError, at,
                fmt::format("the class `{}` isn't in the data, which has: {}", name,
                            fmt::join(facts->classes, ", ")));
  }
  CompareHeads(checker, given != nullptr ? names : facts->classes,
               given != nullptr ? fmt::format("`{}`", at) : "the data");
}

// The validation's classes are the training's, under the same names.
void ValidationClasses(Checker& checker) {
  const DataFacts* train = checker.TrainFacts();
  if (train == nullptr || checker.root.At("data.train.classes") != nullptr) return;
  for (const char* part : {"data.val", "data.test"}) {
    std::string at = std::string(part) + ".ann_file";
    if (checker.root.At(at) == nullptr) at = std::string(part) + ".img_prefix";
    std::optional<DataFacts> facts = checker.Facts(part);
    if (!facts || facts->classes.empty()) continue;
    std::vector<std::string> other;
    for (const std::string& name : facts->classes) {
      if (!Holds(train->classes, name)) other.push_back(name);
    }
    if (other.empty()) continue;
    checker.Add("classes", Level::kError, at,
                fmt::format("it has classes that training never sees: {} (training has {})",
                            fmt::join(other, ", "), fmt::join(train->classes, ", ")),
                "train and validate with the same classes");
  }
}

// mmdetection#5650: found after the first epoch otherwise.
void Metric(Checker& checker) {
  const Node* model = checker.root.Find("model");
  if (model == nullptr) return;
  const bool masks = model->At("roi_head.mask_head") != nullptr || model->Has("mask_head") ||
                     model->Has("panoptic_head") || model->Has("segm_head") ||
                     model->Has("decode_head");
  const std::string type = checker.Text("model.type");
  const bool boxes = type == "FasterRCNN" || type == "FastRCNN" || type == "CascadeRCNN" ||
                     type == "RetinaNet" || type == "FCOS" || type == "ATSS" || type == "SSD" ||
                     type == "SSD300" || type == "SingleStageDetector" || type == "YOLOV3" ||
                     type == "YOLOX";
  const bool labels = type.find("Classifier") != std::string::npos;
  if (masks || (!boxes && !labels)) return;
  for (const char* path : {"evaluation.metric", "val_evaluator.metric"}) {
    const Node* metric = checker.root.At(path);
    if (metric == nullptr) continue;
    for (const Node& name : Elements(*metric)) {
      if (!name.IsString()) continue;
      const std::string& word = name.AsString();
      if (boxes && word == "segm") {
        checker.Add("metric-model", Level::kError, path,
                    fmt::format("the metric segm needs masks, and {} gives none", type),
                    "use bbox");
      } else if (labels ? word == "bbox" || word == "segm" || word == "proposal"
                        : word == "accuracy" || word == "top1" || word == "top5") {
        checker.Add("metric-model", Level::kError, path,
                    fmt::format("the metric {} needs {}, and {} gives {}", word,
                                labels ? "boxes" : "labels of whole images", type,
                                labels ? "none" : "boxes"),
                    labels ? "use accuracy" : "use bbox");
      }
    }
  }
}

void Paths(Checker& checker) {
  for (const char* path :
       {"data.train.ann_file", "data.train.img_prefix", "data.val.ann_file", "data.val.img_prefix",
        "data.test.ann_file", "data.test.img_prefix", "load_from", "model.init_cfg.checkpoint",
        "model.backbone.init_cfg.checkpoint"}) {
    const std::string file = checker.Text(path);
    std::error_code error;
    // "torchvision://resnet50" and other addresses aren't paths.
    if (file.empty() || file.find("://") != std::string::npos || fs::exists(file, error)) continue;
    checker.Add("missing-path", Level::kWarning, path,
                fmt::format("`{}`: {} doesn't exist", path, file),
                "paths are relative to the folder in which exp runs");
  }
}

}  // namespace

void CheckData(Checker& checker) {
  Metric(checker);
  Classes(checker);
  if (!checker.own) return;
  ValidationClasses(checker);
  Paths(checker);
}

}  // namespace xp::config
