#include "exp/models/faster_rcnn.h"

#include <cmath>
#include <utility>

namespace xp::models {
namespace {

using graph::AnchorLevel;
using graph::DType;
using graph::Graph;
using graph::kNoTensor;
using graph::OpType;
using graph::Shape;
using graph::TensorId;

// What of the network training and evaluation have in common.
struct Features {
  TensorId sizes = kNoTensor;
  std::vector<TensorId> pyramid;   // P2 .. P6
  std::vector<TensorId> cls, box;  // of the RPN, a level
  std::vector<AnchorLevel> anchors;
};

class FasterRcnn : public Model {
 public:
  explicit FasterRcnn(FasterRcnnOptions options) : o_(std::move(options)) {}

  Task task() const override { return Task::kDetection; }
  int num_classes() const override { return o_.num_classes; }
  std::vector<LossTerm> losses() const override {
    return {{"loss_objectness", "rpn_losses", 0},
            {"loss_rpn_box_reg", "rpn_losses", 1},
            {"loss_classifier", "roi_losses", 0},
            {"loss_box_reg", "roi_losses", 1}};
  }

  void BuildTraining(Graph& g, const BatchShape& shape) const override {
    Features f = BuildFeatures(g, shape, true);
    int64_t n = shape.n, boxes = shape.max_boxes;
    TensorId gt_boxes = g.AddInput("gt_boxes", {n, boxes, 4}, DType::kF32);
    TensorId gt_labels = g.AddInput("gt_labels", {n, boxes}, DType::kI32);
    TensorId gt_counts = g.AddInput("gt_counts", {n}, DType::kI32);
    TensorId key = g.AddInput("step_key", {4}, DType::kU32);
    TensorId loss_scale = kNoTensor;
    if (g.compute() == DType::kF16) loss_scale = g.AddState({"loss_scale", {1}, 65536});
    RpnLosses(g, f, gt_boxes, gt_counts, key, loss_scale);
    auto [proposals, counts] = Proposals(g, f, o_.train_proposals);
    RoiLosses(g, f, proposals, counts, gt_boxes, gt_labels, gt_counts, key, loss_scale);
  }

  void BuildEvaluation(Graph& g, const BatchShape& shape) const override {
    Features f = BuildFeatures(g, shape, false);
    auto [proposals, counts] = Proposals(g, f, o_.test_proposals);
    auto [logits, deltas] = BoxHead(g, f, proposals, counts, o_.test_proposals.post_nms);
    int64_t n = shape.n, d = o_.detections.max_detections;
    graph::DetectionAttrs attrs = o_.detections;
    attrs.num_classes = o_.num_classes;
    attrs.class_agnostic = o_.class_agnostic;
    g.AddOp(
        OpType::kDetections, {logits, deltas, proposals, counts, f.sizes},
        {g.AddOutput("boxes", {n, d, 4}, DType::kF32), g.AddOutput("scores", {n, d}, DType::kF32),
         g.AddOutput("labels", {n, d}, DType::kI32), g.AddOutput("counts", {n}, DType::kI32)},
        attrs, "detections");
  }

 private:
  Features BuildFeatures(Graph& g, const BatchShape& shape, bool training) const {
    Features f;
    TensorId images = g.AddInput("images", {shape.n, shape.height, shape.width, 3}, DType::kU8);
    f.sizes = g.AddInput("sizes", {shape.n, 2}, DType::kI32);
    TensorId x = graph::ImageNormalize(g, images, f.sizes, o_.normalize);
    f.pyramid = Pyramid(g, ResNet(g, x, "backbone.body.", o_.backbone, training));
    RpnHead(g, f);
    for (size_t level = 0; level < f.pyramid.size(); ++level) {
      f.anchors.push_back(Anchors(g.tensor(f.pyramid[level]).shape, shape, level));
    }
    return f;
  }

  std::vector<TensorId> Pyramid(Graph& g, const std::vector<TensorId>& stages) const {
    auto conv = [&](TensorId x, const std::string& name, int kernel) {
      int in = static_cast<int>(g.tensor(x).shape.back());
      int fan_in = in * kernel * kernel;
      graph::Init init = graph::KaimingUniform(fan_in, 1);
      if (o_.neck_xavier) {
        float fans =
            static_cast<float>(kernel * kernel) * static_cast<float>(in + o_.neck_channels);
        init = {graph::InitKind::kUniform, std::sqrt(6.0f / fans)};
      }
      return graph::Conv2d(g, x, "backbone.fpn." + name + ".0",
                           {.out_channels = o_.neck_channels,
                            .kernel = kernel,
                            .pad = kernel / 2,
                            .bias = true,
                            .init = init});
    };
    std::vector<TensorId> out(stages.size());
    TensorId inner = kNoTensor;
    for (size_t i = stages.size(); i-- > 0;) {
      std::string index = std::to_string(i);
      TensorId lateral = conv(stages[i], "inner_blocks." + index, 1);
      inner =
          inner == kNoTensor ? lateral : graph::UpsampleAdd(g, inner, lateral, "fpn.add" + index);
      out[i] = conv(inner, "layer_blocks." + index, 3);
    }
    out.push_back(graph::Subsample(g, out.back(), "fpn.pool"));
    return out;
  }

  void RpnHead(Graph& g, Features& f) const {
    int per_cell = static_cast<int>(o_.anchor_ratios.size() * o_.anchor_sizes[0].size());
    graph::Init init{graph::InitKind::kNormal, 0.01f};
    for (TensorId x : f.pyramid) {
      TensorId t = graph::Conv2d(
          g, x, "rpn.head.conv.0.0",
          {.out_channels = o_.neck_channels, .kernel = 3, .pad = 1, .bias = true, .init = init});
      t = graph::Relu(g, t, "rpn.head.relu");
      f.cls.push_back(graph::Conv2d(g, t, "rpn.head.cls_logits",
                                    {.out_channels = per_cell, .bias = true, .init = init}));
      f.box.push_back(graph::Conv2d(g, t, "rpn.head.bbox_pred",
                                    {.out_channels = per_cell * 4, .bias = true, .init = init}));
    }
  }

  // torchvision's AnchorGenerator: strides are the padded image over the map's size, in whole
  // pixels.
  AnchorLevel Anchors(const Shape& map, const BatchShape& shape, size_t level) const {
    AnchorLevel a;
    a.height = static_cast<int>(map[1]);
    a.width = static_cast<int>(map[2]);
    a.stride_y = static_cast<float>(shape.height / a.height);
    a.stride_x = static_cast<float>(shape.width / a.width);
    for (float ratio : o_.anchor_ratios) {
      for (float size : o_.anchor_sizes[level]) {
        float h = size * std::sqrt(ratio) / 2, w = size * (1 / std::sqrt(ratio)) / 2;
        float x = o_.anchor_offset * a.stride_x, y = o_.anchor_offset * a.stride_y;
        for (float v : {x - w, y - h, x + w, y + h})
          a.base.push_back(o_.round_anchors ? std::nearbyint(v) : v);
      }
    }
    return a;
  }

  void RpnLosses(Graph& g, const Features& f, TensorId gt_boxes, TensorId gt_counts, TensorId key,
                 TensorId loss_scale) const {
    int64_t n = g.tensor(gt_boxes).shape[0], s = o_.rpn_targets.samples;
    graph::RpnTargetAttrs attrs = o_.rpn_targets;
    attrs.levels = f.anchors;
    TensorId sampled = g.AddTemp("rpn.sampled", {n, s}, DType::kI32);
    TensorId targets = g.AddTemp("rpn.targets", {n, s, 4}, DType::kF32);
    TensorId counts = g.AddTemp("rpn.counts", {n, 2}, DType::kI32);
    g.AddOp(OpType::kRpnTargets, {gt_boxes, gt_counts, key}, {sampled, targets, counts}, attrs,
            "rpn.targets");

    std::vector<TensorId> inputs = f.cls;
    inputs.insert(inputs.end(), f.box.begin(), f.box.end());
    std::vector<TensorId> outputs{g.AddOutput("rpn_losses", {2}, DType::kF32)};
    for (TensorId id : inputs) {
      TensorId grad = g.AddTemp("d " + g.tensor(id).name, g.tensor(id).shape);
      g.SeedGradient(id, grad);
      outputs.push_back(grad);
    }
    inputs.insert(inputs.end(), {sampled, targets, counts, loss_scale});
    g.AddOp(OpType::kRpnLoss, inputs, outputs, graph::RpnLossAttrs{f.anchors, o_.rpn_beta},
            "rpn.loss");
  }

  std::pair<TensorId, TensorId> Proposals(Graph& g, const Features& f,
                                          graph::RpnProposalAttrs attrs) const {
    int64_t n = g.tensor(f.sizes).shape[0], p = attrs.post_nms;
    attrs.levels = f.anchors;
    std::vector<TensorId> inputs = f.cls;
    inputs.insert(inputs.end(), f.box.begin(), f.box.end());
    inputs.push_back(f.sizes);
    TensorId proposals = g.AddTemp("proposals", {n, p, 4}, DType::kF32);
    TensorId scores = g.AddTemp("proposals.scores", {n, p}, DType::kF32);
    TensorId counts = g.AddTemp("proposals.counts", {n}, DType::kI32);
    g.AddOp(OpType::kRpnProposals, inputs, {proposals, scores, counts}, attrs, "rpn.proposals");
    return {proposals, counts};
  }

  // rois f32 [N,R,4] -> class logits [N*R, K+1], box deltas [N*R, (K+1)*4].
  std::pair<TensorId, TensorId> BoxHead(Graph& g, const Features& f, TensorId rois, TensorId counts,
                                        int64_t r) const {
    int64_t rows = g.tensor(rois).shape[0] * r;
    graph::RoiAlignAttrs attrs = o_.roi_align;
    attrs.scales.clear();
    std::vector<TensorId> inputs;
    for (size_t level = 0; level + 1 < f.pyramid.size(); ++level) {
      inputs.push_back(f.pyramid[level]);
      attrs.scales.push_back(1.0f / static_cast<float>(4 << level));
    }
    inputs.insert(inputs.end(), {rois, counts});
    int64_t s = attrs.output;
    TensorId x = g.AddTemp("roi.features", {rows, s, s, o_.neck_channels});
    g.AddOp(OpType::kRoiAlign, inputs, {x}, attrs, "roi.align");

    // `normal`: the standard deviation with which mmdetection's predictors begin.
    auto linear = [&](TensorId in, const std::string& name, int out, Shape chw, float normal) {
      int fan_in = static_cast<int>(graph::NumElements(g.tensor(in).shape) / rows);
      graph::Init init = graph::LinearDefault(fan_in), bias = init;
      if (o_.head_init == HeadInit::kMmdetection) {
        init = normal > 0 ? graph::Init{graph::InitKind::kNormal, normal}
                          : graph::Init{graph::InitKind::kUniform,
                                        std::sqrt(6.0f / static_cast<float>(fan_in + out))};
        bias = {};
      }
      return graph::Linear(
          g, in, "roi_heads." + name,
          {.out_features = out, .init = init, .bias_init = bias, .chw = std::move(chw)});
    };
    x = graph::Relu(g, linear(x, "box_head.fc6", o_.fc_channels, {o_.neck_channels, s, s}, 0),
                    "roi.relu6");
    x = graph::Relu(g, linear(x, "box_head.fc7", o_.fc_channels, {}, 0), "roi.relu7");
    TensorId logits = linear(x, "box_predictor.cls_score", o_.num_classes + 1, {}, 0.01f);
    TensorId deltas = linear(x, "box_predictor.bbox_pred",
                             o_.class_agnostic ? 4 : (o_.num_classes + 1) * 4, {}, 0.001f);
    return {logits, deltas};
  }

  void RoiLosses(Graph& g, const Features& f, TensorId proposals, TensorId proposal_counts,
                 TensorId gt_boxes, TensorId gt_labels, TensorId gt_counts, TensorId key,
                 TensorId loss_scale) const {
    graph::RoiTargetAttrs attrs = o_.roi_targets;
    attrs.num_classes = o_.num_classes;
    int64_t n = g.tensor(gt_boxes).shape[0], r = attrs.samples;
    TensorId rois = g.AddTemp("roi.boxes", {n, r, 4}, DType::kF32);
    TensorId labels = g.AddTemp("roi.labels", {n, r}, DType::kI32);
    TensorId targets = g.AddTemp("roi.targets", {n, r, 4}, DType::kF32);
    TensorId counts = g.AddTemp("roi.counts", {n, 2}, DType::kI32);
    g.AddOp(OpType::kRoiTargets, {proposals, proposal_counts, gt_boxes, gt_labels, gt_counts, key},
            {rois, labels, targets, counts}, attrs, "roi.targets");
    auto [logits, deltas] = BoxHead(g, f, rois, counts, r);
    TensorId dlogits = g.AddTemp("d logits", g.tensor(logits).shape);
    TensorId ddeltas = g.AddTemp("d deltas", g.tensor(deltas).shape);
    g.SeedGradient(logits, dlogits);
    g.SeedGradient(deltas, ddeltas);
    graph::RoiLossAttrs loss{o_.num_classes, attrs.background, o_.roi_beta, o_.class_agnostic};
    g.AddOp(OpType::kRoiLoss, {logits, deltas, labels, targets, counts, loss_scale},
            {g.AddOutput("roi_losses", {2}, DType::kF32), dlogits, ddeltas}, loss, "roi.loss");
  }

  FasterRcnnOptions o_;
};

}  // namespace

std::unique_ptr<Model> MakeFasterRcnn(const FasterRcnnOptions& options) {
  return std::make_unique<FasterRcnn>(options);
}

FasterRcnnOptions TorchvisionFasterRcnn(int depth, int num_classes) {
  FasterRcnnOptions o;
  o.backbone.depth = depth;
  o.num_classes = num_classes;
  o.test_proposals.pre_nms = 1000;
  o.test_proposals.post_nms = 1000;
  return o;
}

}  // namespace xp::models
