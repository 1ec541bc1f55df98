// Reads a config's `model` dict (mmdetection's key names) into the models' options.
#include <algorithm>
#include <string>

#include "exp/base/error.h"
#include "exp/config/reader.h"
#include "exp/models/classifier.h"
#include "exp/models/model.h"
#include "exp/models/ssd.h"
#include "src/models/config_parts.h"

namespace xp::models {
namespace {

using config::Reader;

std::unique_ptr<Model> ReadClassifier(const Reader& model) {
  ClassifierOptions o;
  o.backbone = ReadBackbone(model.Child("backbone"));
  ReadNormalize(model, o.normalize);
  o.num_classes = ReadPositive(model, "head.num_classes", 1000);
  o.label_smoothing = ReadFloat(model, "head.label_smoothing", 0);
  if (o.label_smoothing < 0 || o.label_smoothing >= 1)
    model.Bad("head.label_smoothing", "is out of range", "a number from 0 to below 1");
  return MakeClassifier(o);
}

std::unique_ptr<Model> ReadSsd(const Reader& model) {
  SsdOptions o;
  ReadNormalize(model, o.normalize);
  if (model.Has("backbone")) {
    Reader backbone = model.Child("backbone");
    backbone.Choice("type", {"SSDVGG"}, "SSDVGG");
    if (backbone.Int("depth", 16) != 16) backbone.Bad("depth", "VGG is not 16 layers deep", "16");
    o.base_channels = ReadPositive(backbone, "base_channels", 64);
    const int64_t frozen = backbone.Int("frozen_stages", 0);  // -1, none, as a ResNet has it
    if (frozen < -1 || frozen > 5) backbone.Bad("frozen_stages", "VGG has 5 stages", "-1 to 5");
    o.frozen_stages = static_cast<int>(std::max<int64_t>(0, frozen));
    if (o.base_channels % 4 != 0 || o.base_channels > 64)
      backbone.Bad("base_channels", "is no width of this network", "a multiple of 4, at most 64");
  }
  Reader head = model.Child("bbox_head");
  o.num_classes = ReadPositive(head, "num_classes");
  if (head.Has("bbox_coder")) ReadCoder(head.Child("bbox_coder"), o.head.coder);
  if (model.Has("train_cfg.assigner"))
    ReadMatcher(model.Child("train_cfg.assigner"), o.head.matcher);
  o.head.negative_ratio = ReadFloat(model, "train_cfg.neg_pos_ratio", o.head.negative_ratio);
  o.head.beta = ReadFloat(model, "train_cfg.smoothl1_beta", o.head.beta);
  if (model.Has("test_cfg")) {
    Reader test = model.Child("test_cfg");
    o.head.min_score = ReadFloat(test, "score_thr", o.head.min_score);
    o.head.nms_iou = ReadFloat(test, "nms.iou_threshold", o.head.nms_iou);
    o.head.candidates = ReadPositive(test, "nms_pre", o.head.candidates);
    o.head.max_detections = ReadPositive(test, "max_per_img", o.head.max_detections);
  }
  return MakeSsd300(o);
}

}  // namespace

std::unique_ptr<Model> CreateModel(const Reader& model) {
  std::string type = model.Choice("type", {"FasterRCNN", "SSD300", "ImageClassifier"});
  if (type == "SSD300") return ReadSsd(model);
  return type == "FasterRCNN" ? ReadFasterRcnn(model) : ReadClassifier(model);
}

}  // namespace xp::models
