// A Faster R-CNN's options from a config, with mmdetection's key names.
#include <string>
#include <vector>

#include "exp/models/faster_rcnn.h"
#include "src/models/config_parts.h"

namespace xp::models {
namespace {

using config::Reader;

std::vector<float> Floats(const Reader& r, const char* path, std::vector<double> fallback) {
  std::vector<double> values = r.Doubles(path, std::move(fallback));
  return {values.begin(), values.end()};
}

void ReadProposals(const Reader& r, graph::RpnProposalAttrs& p) {
  RequireNumber(r, "score_thr", 0);
  p.pre_nms = ReadPositive(r, "nms_pre", p.pre_nms);
  p.post_nms = ReadPositive(r, "max_per_img", p.post_nms);
  p.nms_iou = ReadFloat(r, "nms.iou_threshold", p.nms_iou);
  p.min_size = ReadFloat(r, "min_bbox_size", p.min_size);
}

// beta of the regression loss: L1Loss is 0; a SmoothL1Loss without one has mmdetection's.
float ReadBeta(const Reader& loss) {
  std::string type = loss.Choice("type", {"SmoothL1Loss", "L1Loss"}, "SmoothL1Loss");
  RequireNumber(loss, "loss_weight", 1);
  return type == "L1Loss" ? 0.0f : ReadFloat(loss, "beta", 1);
}

// `loss_cls` says nothing that could be otherwise; what it says must be so.
void CheckClassLoss(const Reader& head, bool sigmoid) {
  if (!head.Has("loss_cls")) return;
  Reader loss = head.Child("loss_cls");
  loss.Choice("type", {"CrossEntropyLoss"}, "CrossEntropyLoss");
  RequireNumber(loss, "loss_weight", 1);
  if (loss.Bool("use_sigmoid", false) != sigmoid) {
    loss.Bad("use_sigmoid",
             sigmoid ? "the RPN tells objects from background by a sigmoid"
                     : "the box head's classes share one softmax",
             sigmoid ? "true" : "false");
  }
}

// Sizes that follow from other options: they may be repeated, but not contradicted.
void CheckImplied(const Reader& model, const FasterRcnnOptions& o) {
  RequireNumber(model, "neck.num_outs", 5);
  RequireNumber(model, "backbone.num_stages", 4);
  for (const char* key :
       {"rpn_head.in_channels", "rpn_head.feat_channels",
        "roi_head.bbox_roi_extractor.out_channels", "roi_head.bbox_head.in_channels"}) {
    RequireNumber(model, key, o.neck_channels);
  }
  RequireNumber(model, "roi_head.bbox_head.roi_feat_size", o.roi_align.output);
  RequireNumbers(model, "roi_head.bbox_roi_extractor.featmap_strides", {4, 8, 16, 32});
  RequireNumbers(model, "backbone.out_indices", {0, 1, 2, 3});
  double c = o.backbone.base_channels * (o.backbone.bottleneck() ? 4 : 1);
  RequireNumbers(model, "neck.in_channels", {c, 2 * c, 4 * c, 8 * c});
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
    o.anchor_offset = ReadFloat(head, "anchor_generator.center_offset", 0);
    CheckClassLoss(head, true);
    if (head.Has("loss_bbox")) o.rpn_beta = ReadBeta(head.Child("loss_bbox"));
    if (head.Has("bbox_coder")) ReadCoder(head.Child("bbox_coder"), o.rpn_targets.coder);
    o.train_proposals.coder = o.test_proposals.coder = o.rpn_targets.coder;
  }
  if (model.Has("train_cfg.rpn")) {
    RequireNumber(model, "train_cfg.rpn.allowed_border", -1);
    RequireNumber(model, "train_cfg.rpn.pos_weight", -1);
    RequireNumber(model, "train_cfg.rpn.sampler.neg_pos_ub", -1);
  }
  if (model.Has("train_cfg.rpn.assigner"))
    ReadMatcher(model.Child("train_cfg.rpn.assigner"), o.rpn_targets.matcher);
  if (model.Has("train_cfg.rpn.sampler")) {
    Reader sampler = model.Child("train_cfg.rpn.sampler");
    sampler.Choice("type", {"RandomSampler"}, "RandomSampler");
    o.rpn_targets.samples = ReadPositive(sampler, "num", 256);
    o.rpn_targets.positive_fraction = ReadFloat(sampler, "pos_fraction", 0.5);
  }
  if (model.Has("train_cfg.rpn_proposal"))
    ReadProposals(model.Child("train_cfg.rpn_proposal"), o.train_proposals);
  if (model.Has("test_cfg.rpn")) ReadProposals(model.Child("test_cfg.rpn"), o.test_proposals);
}

void ReadRoiHead(const Reader& model, FasterRcnnOptions& o) {
  Reader head = model.Child("roi_head.bbox_head");
  o.num_classes = ReadPositive(head, "num_classes");
  o.fc_channels = ReadPositive(head, "fc_out_channels", 1024);
  o.head_init = head.Choice("init", {"torchvision", "mmdetection"}, "torchvision") == "mmdetection"
                    ? HeadInit::kMmdetection
                    : HeadInit::kTorchvision;
  o.class_agnostic = head.Bool("reg_class_agnostic", false);
  CheckClassLoss(head, false);
  if (head.Has("loss_bbox")) o.roi_beta = ReadBeta(head.Child("loss_bbox"));
  if (head.Has("bbox_coder")) ReadCoder(head.Child("bbox_coder"), o.roi_targets.coder);
  o.detections.coder = o.roi_targets.coder;
  bool last = head.Choice("background", {"first", "last"}, "first") == "last";
  o.roi_targets.background = o.detections.background = last ? o.num_classes : 0;
  if (model.Has("roi_head.bbox_roi_extractor")) {
    Reader roi = model.Child("roi_head.bbox_roi_extractor");
    o.roi_align.output = ReadPositive(roi, "output_size", 7);
    o.roi_align.sampling_ratio = roi.IntWithin("sampling_ratio", 2, 0, 64);
    o.roi_align.aligned = roi.Bool("aligned", false);
    // mmdetection: boxes below finest_scale go to the first level; torchvision: 224 pixels to
    // level 4.
    o.roi_align.canonical_size = 4 * ReadPositive(roi, "finest_scale", 56);
  }
  RequireNumber(model, "train_cfg.rcnn.pos_weight", -1);
  RequireNumber(model, "train_cfg.rcnn.sampler.neg_pos_ub", -1);
  if (model.Has("train_cfg.rcnn.assigner"))
    ReadMatcher(model.Child("train_cfg.rcnn.assigner"), o.roi_targets.matcher);
  if (model.Has("train_cfg.rcnn.sampler")) {
    Reader sampler = model.Child("train_cfg.rcnn.sampler");
    sampler.Choice("type", {"RandomSampler"}, "RandomSampler");
    o.roi_targets.samples = ReadPositive(sampler, "num", 512);
    o.roi_targets.positive_fraction = ReadFloat(sampler, "pos_fraction", 0.25);
    o.roi_targets.add_ground_truth = sampler.Bool("add_gt_as_proposals", true);
  }
  if (model.Has("test_cfg.rcnn")) {
    Reader test = model.Child("test_cfg.rcnn");
    o.detections.min_score = ReadFloat(test, "score_thr", 0.05);
    o.detections.nms_iou = ReadFloat(test, "nms.iou_threshold", 0.5);
    o.detections.max_detections = ReadPositive(test, "max_per_img", 100);
    o.detections.min_size = ReadFloat(test, "min_bbox_size", 1e-2);
  }
}

}  // namespace

std::unique_ptr<Model> ReadFasterRcnn(const Reader& model) {
  FasterRcnnOptions o = TorchvisionFasterRcnn(50, 0);
  o.backbone = ReadBackbone(model.Child("backbone"));
  ReadNormalize(model, o.normalize);
  if (model.Has("neck")) {
    Reader neck = model.Child("neck");
    neck.Choice("type", {"FPN"}, "FPN");
    o.neck_channels = ReadPositive(neck, "out_channels", 256);
    o.neck_xavier = neck.Choice("init", {"kaiming", "xavier"}, "kaiming") == "xavier";
  }
  ReadRpn(model, o);
  ReadRoiHead(model, o);
  CheckImplied(model, o);
  return MakeFasterRcnn(o);
}

}  // namespace xp::models
