// Each option of a Faster R-CNN's config, and where in the graphs it must show.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "catch.h"
#include "exp/config/load.h"
#include "exp/config/reader.h"
#include "exp/models/model.h"

namespace xp::models {
namespace {

using graph::OpType;

struct Built {
  graph::Graph train, eval;

  explicit Built(const std::vector<std::string>& set)
      : train(std::make_shared<graph::ParamLayout>()),
        eval(std::make_shared<graph::ParamLayout>()) {
    const config::Resolved resolved =
        config::Load(EXP_SOURCE_DIR "/configs/faster_rcnn_mmdet_bccd.yaml", set);
    const auto model = CreateModel(config::Reader(resolved.root).Child("model"));
    const BatchShape shape{.n = 1, .height = 64, .width = 64, .max_boxes = 4};
    model->BuildTraining(train, shape);
    model->BuildEvaluation(eval, shape);
  }

  template <typename Attrs>
  static const Attrs& Of(const graph::Graph& g, OpType type) {
    for (const graph::Op& op : g.ops())
      if (op.type == type) return std::get<Attrs>(op.attrs);
    throw std::runtime_error("no such op");
  }
  const graph::RpnTargetAttrs& rpn() const {
    return Of<graph::RpnTargetAttrs>(train, OpType::kRpnTargets);
  }
  const graph::RpnProposalAttrs& proposals(bool training) const {
    return Of<graph::RpnProposalAttrs>(training ? train : eval, OpType::kRpnProposals);
  }
  const graph::RoiTargetAttrs& roi() const {
    return Of<graph::RoiTargetAttrs>(train, OpType::kRoiTargets);
  }
  const graph::RoiAlignAttrs& align() const {
    return Of<graph::RoiAlignAttrs>(eval, OpType::kRoiAlign);
  }
  const graph::RoiLossAttrs& roi_loss() const {
    return Of<graph::RoiLossAttrs>(train, OpType::kRoiLoss);
  }
  const graph::DetectionAttrs& detections() const {
    return Of<graph::DetectionAttrs>(eval, OpType::kDetections);
  }
  double rpn_beta() const { return Of<graph::RpnLossAttrs>(train, OpType::kRpnLoss).beta; }
  const graph::Param& param(const std::string& name) const {
    const int at = train.layout().FindParam(name);
    if (at < 0) throw std::runtime_error("no parameter " + name);
    return train.layout().params()[static_cast<size_t>(at)];
  }
};

struct Row {
  std::vector<std::string> set;
  std::function<double(const Built&)> shows;
  double expected;
};

void Check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO(row.set.at(0));
    const double expected = row.expected;
    CHECK(row.shows(Built(row.set)) == Approx(expected).epsilon(1e-6));
  }
}

// The anchor of ratio 1 in the finest level, its corner `k`.
double Anchor(const Built& b, size_t k) { return b.rpn().levels.at(0).base.at(4 + k); }

const std::string kRpn = "model.rpn_head.", kBox = "model.roi_head.bbox_head.",
                  kExtractor = "model.roi_head.bbox_roi_extractor.", kTrain = "model.train_cfg.",
                  kTest = "model.test_cfg.";

}  // namespace

TEST_CASE("the RPN's options are where they belong") {
  Check({
      {{kRpn + "anchor_generator.ratios=[1]"},
       [](const Built& b) { return double(b.rpn().levels.at(0).base.size()); },
       4},
      {{kRpn + "anchor_generator.scales=[4]"},
       [](const Built& b) { return Anchor(b, 2) - Anchor(b, 0); },
       16},
      {{kRpn + "anchor_generator.scales=[2.3]"}, [](const Built& b) { return Anchor(b, 2); }, 4.6},
      {{kRpn + "anchor_generator.scales=[2.3]", kRpn + "anchor_generator.round=true"},
       [](const Built& b) { return Anchor(b, 2); },
       5},
      {{"+" + kRpn + "anchor_generator.center_offset=0.5"},
       [](const Built& b) { return Anchor(b, 0) + Anchor(b, 2); },
       4},
      // mmdetection's SmoothL1Loss has beta 1 where none is given.
      {{kRpn + "loss_bbox={type: SmoothL1Loss}"}, [](const Built& b) { return b.rpn_beta(); }, 1},
      {{kRpn + "loss_bbox={type: SmoothL1Loss, beta: 0.25}"},
       [](const Built& b) { return b.rpn_beta(); },
       0.25},
      {{kRpn + "loss_bbox={type: L1Loss}"}, [](const Built& b) { return b.rpn_beta(); }, 0},
      {{"~" + kRpn + "loss_bbox"}, [](const Built& b) { return b.rpn_beta(); }, 1.0 / 9},
      {{kTrain + "rpn.assigner.min_pos_iou=0.1"},
       [](const Built& b) { return double(b.rpn().matcher.low_quality_min); },
       0.1},
      {{kTrain + "rpn.assigner.match_low_quality=false"},
       [](const Built& b) { return double(b.rpn().matcher.low_quality); },
       0},
      {{kTrain + "rpn.assigner.low_quality_to_best=false"},
       [](const Built& b) { return double(b.rpn().matcher.low_quality_to_best); },
       0},
  });
  for (bool training : {true, false}) {
    const std::string key = training ? kTrain + "rpn_proposal." : kTest + "rpn.";
    Check({
        {{key + "nms_pre=123"}, [&](const Built& b) { return b.proposals(training).pre_nms; }, 123},
        {{key + "max_per_img=77"},
         [&](const Built& b) { return b.proposals(training).post_nms; },
         77},
        {{key + "nms.iou_threshold=0.6"},
         [&](const Built& b) { return double(b.proposals(training).nms_iou); },
         0.6},
        {{key + "min_bbox_size=3"},
         [&](const Built& b) { return double(b.proposals(training).min_size); },
         3},
    });
  }
}

TEST_CASE("matching and sampling of both stages are where they belong") {
  for (bool rpn : {true, false}) {
    const std::string key = kTrain + (rpn ? "rpn." : "rcnn.");
    auto matcher = [rpn](const Built& b) { return rpn ? b.rpn().matcher : b.roi().matcher; };
    Check({
        {{key + "assigner.pos_iou_thr=0.65"},
         [&](const Built& b) { return double(matcher(b).positive); },
         0.65},
        {{key + "assigner.neg_iou_thr=0.2"},
         [&](const Built& b) { return double(matcher(b).negative); },
         0.2},
        {{key + "sampler.num=100"},
         [&](const Built& b) { return rpn ? b.rpn().samples : b.roi().samples; },
         100},
        {{key + "sampler.pos_fraction=0.3"},
         [&](const Built& b) {
           return double(rpn ? b.rpn().positive_fraction : b.roi().positive_fraction);
         },
         0.3},
    });
  }
}

TEST_CASE("the box head's options are where they belong") {
  Check({
      {{kBox + "fc_out_channels=96"},
       [](const Built& b) { return double(b.param("roi_heads.box_head.fc7.weight").shape.at(0)); },
       96},
      {{kBox + "background=last"},
       [](const Built& b) { return b.roi().background + b.detections().background; },
       6},
      {{kBox + "background=first"},
       [](const Built& b) { return b.roi().background + b.detections().background; },
       0},
      {{"+" + kBox + "reg_class_agnostic=true"},
       [](const Built& b) {
         return double(b.param("roi_heads.box_predictor.bbox_pred.weight").shape.at(0));
       },
       4},
      {{kBox + "loss_bbox={type: SmoothL1Loss}"},
       [](const Built& b) { return double(b.roi_loss().beta); },
       1},
      {{kBox + "loss_bbox={type: L1Loss}"},
       [](const Built& b) { return double(b.roi_loss().beta); },
       0},
      {{"~" + kBox + "loss_bbox"},
       [](const Built& b) { return double(b.roi_loss().beta); },
       1.0 / 9},
      {{kExtractor + "output_size=5"}, [](const Built& b) { return b.align().output; }, 5},
      {{kExtractor + "sampling_ratio=3"},
       [](const Built& b) { return b.align().sampling_ratio; },
       3},
      {{kExtractor + "aligned=false"}, [](const Built& b) { return b.align().aligned; }, 0},
      {{kExtractor + "finest_scale=28"},
       [](const Built& b) { return b.align().canonical_size; },
       112},
      {{kTrain + "rcnn.sampler.add_gt_as_proposals=false"},
       [](const Built& b) { return b.roi().add_ground_truth; },
       0},
      {{kTest + "rcnn.score_thr=0.2"},
       [](const Built& b) { return double(b.detections().min_score); },
       0.2},
      {{kTest + "rcnn.nms.iou_threshold=0.4"},
       [](const Built& b) { return double(b.detections().nms_iou); },
       0.4},
      {{kTest + "rcnn.max_per_img=33"},
       [](const Built& b) { return b.detections().max_detections; },
       33},
      {{kTest + "rcnn.min_bbox_size=2"},
       [](const Built& b) { return double(b.detections().min_size); },
       2},
  });
}

TEST_CASE("target_stds are standard deviations: weights of the coder are their inverses") {
  using Weights = std::array<float, 4>;
  const Built b({kRpn + "bbox_coder.target_stds=[0.5, 0.25, 0.2, 0.125]",
                 kBox + "bbox_coder.target_stds=[1, 0.5, 0.25, 0.2]"});
  const Weights rpn{2, 4, 5, 8}, roi{1, 2, 4, 5};
  CHECK(b.rpn().coder.weights == rpn);
  CHECK(b.proposals(true).coder.weights == rpn);
  CHECK(b.proposals(false).coder.weights == rpn);
  CHECK(b.roi().coder.weights == roi);
  CHECK(b.detections().coder.weights == roi);
}

TEST_CASE("weights begin as torchvision's or mmdetection's do, by option") {
  using graph::Init;
  using graph::InitKind;
  auto is = [](const Built& b, const std::string& name, InitKind kind, double value) {
    const Init& init = b.param(name).init;
    INFO(name);
    CHECK(init.kind == kind);
    CHECK(init.value == Approx(value).epsilon(1e-6));
  };
  const std::string fc6 = "roi_heads.box_head.fc6.", cls = "roi_heads.box_predictor.cls_score.",
                    box = "roi_heads.box_predictor.bbox_pred.",
                    lateral = "backbone.fpn.inner_blocks.0.0.weight";
  // mmdet 3.3.0, Shared2FCBBoxHead and FPN: Xavier, uniform, sqrt(6 / (fan in + fan out));
  // bbox_head.py: normal with 0.01 and 0.001.
  const Built mmdet({kBox + "init=mmdetection", "model.neck.init=xavier"});
  is(mmdet, fc6 + "weight", InitKind::kUniform, std::sqrt(6.0 / (256 * 49 + 1024)));
  is(mmdet, fc6 + "bias", InitKind::kConstant, 0);
  is(mmdet, cls + "weight", InitKind::kNormal, 0.01);
  is(mmdet, cls + "bias", InitKind::kConstant, 0);
  is(mmdet, box + "weight", InitKind::kNormal, 0.001);
  is(mmdet, lateral, InitKind::kUniform, std::sqrt(6.0 / (256 + 256)));
  // torch.nn.Linear: both uniform within 1 / sqrt(fan in). torchvision's FPN: kaiming_uniform with
  // a = 1.
  const Built torchvision({kBox + "init=torchvision", "model.neck.init=kaiming"});
  is(torchvision, fc6 + "weight", InitKind::kUniform, 1 / std::sqrt(256.0 * 49));
  is(torchvision, fc6 + "bias", InitKind::kUniform, 1 / std::sqrt(256.0 * 49));
  is(torchvision, cls + "weight", InitKind::kUniform, 1 / std::sqrt(1024.0));
  is(torchvision, lateral, InitKind::kUniform, std::sqrt(3.0 / 256));
}

}  // namespace xp::models
