// Reads a config's `model` dict (mmdetection's key names) into the models' options.
#include <string>
#include <vector>

#include "exp/base/error.h"
#include "exp/config/reader.h"
#include "exp/models/classifier.h"
#include "exp/models/faster_rcnn.h"
#include "exp/models/model.h"
#include "exp/models/ssd.h"

namespace xp::models {
namespace {

using config::Reader;

float Float(const Reader& r, const char* path, double fallback) {
  return static_cast<float>(r.Double(path, fallback));
}

int PositiveInt(const Reader& r, const char* path, int64_t fallback) {
  int64_t value = r.Int(path, fallback);
  if (value < 1 || value > 1000000) r.Bad(path, "must be positive", "an int from 1 to 1000000");
  return static_cast<int>(value);
}

std::vector<float> Floats(const Reader& r, const char* path, std::vector<double> fallback) {
  std::vector<double> values = r.Doubles(path, std::move(fallback));
  return {values.begin(), values.end()};
}

graph::NormMode ReadNorm(const Reader& backbone) {
  std::string type = backbone.Choice("norm_cfg.type", {"BN", "SyncBN", "FrozenBN"}, "BN");
  if (type == "FrozenBN") return graph::NormMode::kFrozen;
  bool eval = backbone.Bool("norm_eval", false);
  bool grad = backbone.Bool("norm_cfg.requires_grad", true);
  if (!eval) return graph::NormMode::kTrain;
  return grad ? graph::NormMode::kEval : graph::NormMode::kFrozen;
}

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
  o.groups = PositiveInt(r, "groups", next ? 32 : 1);
  o.width_per_group = PositiveInt(r, "base_width", next ? 4 : 64);
  if (depth < 50 && (o.groups != 1 || o.width_per_group != 64))
    r.Bad("groups", "basic blocks have no groups", "1");
  o.squeeze_excite = type == "SEResNeXt";
  o.frozen_stages =
      static_cast<int>(r.Int("frozen_stages", -1)) + 1;  // mmdetection: -1 none, 0 stem
  if (o.frozen_stages < 0 || o.frozen_stages > 5)
    r.Bad("frozen_stages", "is out of range", "-1 to 4");
  o.norm = ReadNorm(r);
  o.norm_eps = Float(r, "norm_cfg.eps", 1e-5);
  o.base_channels = PositiveInt(r, "base_channels", 64);
  return o;
}

void ReadNormalize(const Reader& model, graph::NormalizeAttrs& attrs) {
  for (auto [path, target] :
       {std::pair{"img_norm_cfg.mean", &attrs.mean}, {"img_norm_cfg.std", &attrs.std}}) {
    if (!model.Has(path)) continue;
    std::vector<double> values = model.Doubles(path);
    if (values.size() != 3)
      model.Bad(path, "has " + std::to_string(values.size()) + " values", "3: red, green, blue");
    for (size_t i = 0; i < 3; ++i) (*target)[i] = static_cast<float>(values[i] / 255.0);
  }
}

void ReadMatcher(const Reader& r, graph::Matcher& m) {
  m.positive = Float(r, "pos_iou_thr", m.positive);
  m.negative = Float(r, "neg_iou_thr", m.negative);
  m.low_quality = r.Bool("match_low_quality", m.low_quality);
  m.low_quality_min = Float(r, "min_pos_iou", m.low_quality_min);
  m.low_quality_to_best = r.Bool("low_quality_to_best", m.low_quality_to_best);
}

void ReadCoder(const Reader& r, graph::BoxCoder& coder) {
  // mmdetection gives standard deviations, torchvision their inverses as weights.
  if (!r.Has("target_stds")) return;
  std::vector<double> stds = r.Doubles("target_stds");
  if (stds.size() != 4) r.Bad("target_stds", "must have 4 values", "[0.1, 0.1, 0.2, 0.2]");
  for (size_t i = 0; i < 4; ++i) {
    if (!(stds[i] > 0)) r.Bad("target_stds", "must be positive", "four numbers > 0");
    coder.weights[i] = static_cast<float>(1 / stds[i]);
  }
}

void ReadProposals(const Reader& r, graph::RpnProposalAttrs& p) {
  p.pre_nms = PositiveInt(r, "nms_pre", p.pre_nms);
  p.post_nms = PositiveInt(r, "max_per_img", p.post_nms);
  p.nms_iou = Float(r, "nms.iou_threshold", p.nms_iou);
  p.min_size = Float(r, "min_bbox_size", p.min_size);
}

// beta of the regression loss: L1Loss is 0.
float ReadBeta(const Reader& loss, float fallback) {
  std::string type = loss.Choice("type", {"SmoothL1Loss", "L1Loss"}, "SmoothL1Loss");
  return type == "L1Loss" ? 0.0f : Float(loss, "beta", fallback);
}

// Sides of the anchors a level: every scale times the level's stride.
void ReadAnchorSizes(const Reader& head, FasterRcnnOptions& o) {
  std::vector<double> scales = head.Doubles("anchor_generator.scales", {8});
  std::vector<double> strides = head.Doubles("anchor_generator.strides", {4, 8, 16, 32, 64});
  if (scales.empty()) head.Bad("anchor_generator.scales", "is empty", "at least one number");
  if (strides.size() != 5) {
    head.Bad("anchor_generator.strides", "has " + std::to_string(strides.size()) + " values",
             "5: one for each pyramid level");
  }
  o.anchor_sizes.clear();
  for (double stride : strides) {
    std::vector<float>& level = o.anchor_sizes.emplace_back();
    for (double scale : scales) level.push_back(static_cast<float>(scale * stride));
  }
}

void ReadRpn(const Reader& model, FasterRcnnOptions& o) {
  if (model.Has("rpn_head")) {
    Reader head = model.Child("rpn_head");
    o.anchor_ratios = Floats(head, "anchor_generator.ratios", {0.5, 1, 2});
    ReadAnchorSizes(head, o);
    o.round_anchors = head.Bool("anchor_generator.round", true);
    if (head.Has("loss_bbox")) o.rpn_beta = ReadBeta(head.Child("loss_bbox"), o.rpn_beta);
    if (head.Has("bbox_coder")) ReadCoder(head.Child("bbox_coder"), o.rpn_targets.coder);
    o.train_proposals.coder = o.test_proposals.coder = o.rpn_targets.coder;
  }
  if (model.Has("train_cfg.rpn.assigner"))
    ReadMatcher(model.Child("train_cfg.rpn.assigner"), o.rpn_targets.matcher);
  if (model.Has("train_cfg.rpn.sampler")) {
    Reader sampler = model.Child("train_cfg.rpn.sampler");
    o.rpn_targets.samples = PositiveInt(sampler, "num", 256);
    o.rpn_targets.positive_fraction = Float(sampler, "pos_fraction", 0.5);
  }
  if (model.Has("train_cfg.rpn_proposal"))
    ReadProposals(model.Child("train_cfg.rpn_proposal"), o.train_proposals);
  if (model.Has("test_cfg.rpn")) ReadProposals(model.Child("test_cfg.rpn"), o.test_proposals);
}

void ReadRoiHead(const Reader& model, FasterRcnnOptions& o) {
  Reader head = model.Child("roi_head.bbox_head");
  o.num_classes = PositiveInt(head, "num_classes", head.Int("num_classes"));
  o.fc_channels = PositiveInt(head, "fc_out_channels", 1024);
  if (head.Has("loss_bbox")) o.roi_beta = ReadBeta(head.Child("loss_bbox"), o.roi_beta);
  if (head.Has("bbox_coder")) ReadCoder(head.Child("bbox_coder"), o.roi_targets.coder);
  o.detections.coder = o.roi_targets.coder;
  bool last = head.Choice("background", {"first", "last"}, "first") == "last";
  o.roi_targets.background = o.detections.background = last ? o.num_classes : 0;
  if (model.Has("roi_head.bbox_roi_extractor")) {
    Reader roi = model.Child("roi_head.bbox_roi_extractor");
    o.roi_align.output = PositiveInt(roi, "output_size", 7);
    o.roi_align.sampling_ratio = static_cast<int>(roi.Int("sampling_ratio", 2));
    o.roi_align.aligned = roi.Bool("aligned", false);
    // mmdetection: boxes below finest_scale go to the first level; torchvision: 224 pixels to
    // level 4.
    o.roi_align.canonical_size = 4 * PositiveInt(roi, "finest_scale", 56);
  }
  if (model.Has("train_cfg.rcnn.assigner"))
    ReadMatcher(model.Child("train_cfg.rcnn.assigner"), o.roi_targets.matcher);
  if (model.Has("train_cfg.rcnn.sampler")) {
    Reader sampler = model.Child("train_cfg.rcnn.sampler");
    o.roi_targets.samples = PositiveInt(sampler, "num", 512);
    o.roi_targets.positive_fraction = Float(sampler, "pos_fraction", 0.25);
    o.roi_targets.add_ground_truth = sampler.Bool("add_gt_as_proposals", true);
  }
  if (model.Has("test_cfg.rcnn")) {
    Reader test = model.Child("test_cfg.rcnn");
    o.detections.min_score = Float(test, "score_thr", 0.05);
    o.detections.nms_iou = Float(test, "nms.iou_threshold", 0.5);
    o.detections.max_detections = PositiveInt(test, "max_per_img", 100);
    o.detections.min_size = Float(test, "min_bbox_size", 1e-2);
  }
}

std::unique_ptr<Model> ReadFasterRcnn(const Reader& model) {
  FasterRcnnOptions o = TorchvisionFasterRcnn(50, 0);
  o.backbone = ReadBackbone(model.Child("backbone"));
  ReadNormalize(model, o.normalize);
  if (model.Has("neck")) {
    Reader neck = model.Child("neck");
    neck.Choice("type", {"FPN"}, "FPN");
    o.neck_channels = PositiveInt(neck, "out_channels", 256);
    o.neck_xavier = neck.Choice("init", {"kaiming", "xavier"}, "kaiming") == "xavier";
  }
  ReadRpn(model, o);
  ReadRoiHead(model, o);
  return MakeFasterRcnn(o);
}

std::unique_ptr<Model> ReadClassifier(const Reader& model) {
  ClassifierOptions o;
  o.backbone = ReadBackbone(model.Child("backbone"));
  ReadNormalize(model, o.normalize);
  o.num_classes = PositiveInt(model, "head.num_classes", 1000);
  o.label_smoothing = Float(model, "head.label_smoothing", 0);
  if (o.label_smoothing < 0 || o.label_smoothing >= 1)
    model.Bad("head.label_smoothing", "is out of range", "a number from 0 to below 1");
  return MakeClassifier(o);
}

std::unique_ptr<Model> ReadSsd(const Reader& model) {
  SsdOptions o;
  ReadNormalize(model, o.normalize);
  if (model.Has("backbone")) model.Child("backbone").Choice("type", {"SSDVGG"}, "SSDVGG");
  Reader head = model.Child("bbox_head");
  o.num_classes = PositiveInt(head, "num_classes", head.Int("num_classes"));
  if (head.Has("bbox_coder")) ReadCoder(head.Child("bbox_coder"), o.head.coder);
  if (model.Has("train_cfg.assigner"))
    ReadMatcher(model.Child("train_cfg.assigner"), o.head.matcher);
  o.head.negative_ratio = Float(model, "train_cfg.neg_pos_ratio", o.head.negative_ratio);
  o.head.beta = Float(model, "train_cfg.smoothl1_beta", o.head.beta);
  if (model.Has("test_cfg")) {
    Reader test = model.Child("test_cfg");
    o.head.min_score = Float(test, "score_thr", o.head.min_score);
    o.head.nms_iou = Float(test, "nms.iou_threshold", o.head.nms_iou);
    o.head.candidates = PositiveInt(test, "nms_pre", o.head.candidates);
    o.head.max_detections = PositiveInt(test, "max_per_img", o.head.max_detections);
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
