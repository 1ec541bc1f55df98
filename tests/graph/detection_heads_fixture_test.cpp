// Faster R-CNN's targets, losses, proposals and detections against what torchvision computed
// (tests/fixtures), on every backend in f32.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/detection_fixture.h"
#include "kernels/roi_geometry.h"

namespace xp::graph {

TEST_CASE("RPN targets are torchvision's labels and matches", "[detection]") {
  RpnTargetAttrs attrs{.levels = SmallLevels(), .samples = 4096, .positive_fraction = 1};
  OpCase c{OpType::kRpnTargets,
           attrs,
           {GtBoxes(), GtCounts(), Key()},
           {{Kind::kI32, {2, 4096}, {}}, {Kind::kF32, {2, 4096, 4}, {}}, {Kind::kI32, {2, 2}, {}}}};
  std::vector<Box> anchors = Boxes(Frcnn().Floats("train.anchors"));
  for (Backend* backend : TestBackends()) {
    CaseResult r = RunCase(*backend, DType::kF32, c);
    for (size_t n = 0; n < 2; ++n) {
      std::vector<float> labels = Frcnn().Floats("train.rpn.labels" + std::to_string(n));
      std::vector<Box> gt = Boxes(Frcnn().Floats("train.rpn.gt_of_anchor" + std::to_string(n)));
      size_t at = n * 4096;
      for (float label : {1.0f, 0.0f}) {
        size_t count = 0;
        for (size_t i = 0; i < labels.size(); ++i) {
          if (labels[i] != label) continue;
          REQUIRE(r[0][at] == static_cast<double>(i));
          kernels::BoxDeltas d = kernels::Encode(anchors[i], gt[i], ToParams(BoxCoder{}));
          if (label == 0) d = {};
          CheckNear(Floats(r[1], at * 4, 4), {d.dx, d.dy, d.dw, d.dh}, 0);
          ++at;
          ++count;
        }
        CHECK(r[2][n * 2 + (label == 1 ? 0 : 1)] == static_cast<double>(count));
      }
      for (; at < (n + 1) * 4096; ++at) REQUIRE(r[0][at] == -1);
    }
  }
}

TEST_CASE("RPN losses are torchvision's", "[detection]") {
  std::vector<int> sampled(2 * 64, -1), counts(4);
  std::vector<float> targets(2 * 64 * 4);
  std::vector<Box> anchors = Boxes(Frcnn().Floats("train.anchors"));
  for (size_t n = 0; n < 2; ++n) {
    std::string i = std::to_string(n);
    std::vector<int> positives = Frcnn().Ints("train.rpn.positives" + i);
    std::vector<int> negatives = Frcnn().Ints("train.rpn.negatives" + i);
    std::vector<Box> gt = Boxes(Frcnn().Floats("train.rpn.gt_of_anchor" + i));
    counts[n * 2] = static_cast<int>(positives.size());
    counts[n * 2 + 1] = static_cast<int>(negatives.size());
    for (size_t k = 0; k < positives.size(); ++k) {
      size_t a = static_cast<size_t>(positives[k]);
      kernels::BoxDeltas d = kernels::Encode(anchors[a], gt[a], ToParams(BoxCoder{}));
      const float values[] = {d.dx, d.dy, d.dw, d.dh};
      std::copy_n(values, 4, &targets[(n * 64 + k) * 4]);
    }
    positives.insert(positives.end(), negatives.begin(), negatives.end());
    std::copy(positives.begin(), positives.end(), sampled.begin() + static_cast<long>(n * 64));
  }
  OpCase c{OpType::kRpnLoss, RpnLossAttrs{.levels = SmallLevels()}, {}, {{Kind::kF32, {2}, {}}}};
  AddMaps(&c);
  for (size_t i = 0; i < 10; ++i) c.outputs.push_back({Kind::kCompute, c.inputs[i].shape, {}});
  c.inputs.push_back(Given(Kind::kI32, {2, 64}, sampled));
  c.inputs.push_back(Given(Kind::kF32, {2, 64, 4}, targets));
  c.inputs.push_back(Given(Kind::kI32, {2, 2}, counts));
  for (Backend* backend : TestBackends()) {
    CaseResult r = RunCase(*backend, DType::kF32, c);
    CHECK(r[0][0] == Approx(Frcnn().Scalar("train.loss_objectness")).epsilon(1e-5));
    CHECK(r[0][1] == Approx(Frcnn().Scalar("train.loss_rpn_box_reg")).epsilon(1e-5));
  }
}

TEST_CASE("proposals are torchvision's", "[detection]") {
  RpnProposalAttrs attrs{.levels = SmallLevels(), .pre_nms = 200, .post_nms = 100};
  OpCase c{OpType::kRpnProposals,
           attrs,
           {},
           {{Kind::kF32, {2, 100, 4}, {}}, {Kind::kF32, {2, 100}, {}}, {Kind::kI32, {2}, {}}}};
  AddMaps(&c);
  c.inputs.push_back(Given<int>(Kind::kI32, {2, 2}, {96, 128, 96, 112}));
  for (Backend* backend : TestBackends()) {
    CaseResult r = RunCase(*backend, DType::kF32, c);
    CHECK(r[2] == std::vector<double>{100, 100});
    for (size_t n = 0; n < 2; ++n) {
      std::string i = std::to_string(n);
      CheckNear(Floats(r[0], n * 400, 400), Frcnn().Floats("train.rpn.proposals" + i), 1e-3);
      CheckNear(Floats(r[1], n * 100, 100), Frcnn().Floats("train.rpn.scores" + i), 1e-5);
    }
  }
}

TEST_CASE("RoI targets are torchvision's labels and encoded boxes", "[detection]") {
  RoiTargetAttrs attrs{.samples = 128, .positive_fraction = 1, .num_classes = 3};
  std::vector<int> gt_labels(12);
  for (size_t n = 0; n < 2; ++n) {
    std::vector<int> labels = Frcnn().Ints("input.labels" + std::to_string(n));
    for (size_t g = 0; g < labels.size(); ++g) gt_labels[n * 6 + g] = labels[g] - 1;
  }
  OpCase c{OpType::kRoiTargets,
           attrs,
           {Given(Kind::kF32, {2, 100, 4}, Stack(Frcnn(), "train.rpn.proposals", 2, 100, 4)),
            Given<int>(Kind::kI32, {2}, {100, 100}), GtBoxes(),
            Given(Kind::kI32, {2, 6}, gt_labels), GtCounts(), Key()},
           {{Kind::kF32, {2, 128, 4}, {}},
            {Kind::kI32, {2, 128}, {}},
            {Kind::kF32, {2, 128, 4}, {}},
            {Kind::kI32, {2, 2}, {}}}};
  for (Backend* backend : TestBackends()) {
    CaseResult r = RunCase(*backend, DType::kF32, c);
    for (size_t n = 0; n < 2; ++n) {
      std::string i = std::to_string(n);
      std::vector<Box> candidates = Boxes(Frcnn().Floats("train.roi.candidates" + i));
      std::vector<Box> gt = Boxes(Frcnn().Floats("input.boxes" + i));
      std::vector<int> labels = Frcnn().Ints("train.roi.labels" + i);
      std::vector<int> index = Frcnn().Ints("train.roi.gt_index" + i);
      size_t at = n * 128;
      for (bool positive : {true, false}) {
        for (size_t k = 0; k < candidates.size(); ++k) {
          if ((labels[k] > 0) != positive) continue;
          const Box& b = candidates[k];
          CheckNear(Floats(r[0], at * 4, 4), {b.x1, b.y1, b.x2, b.y2}, 0);
          CHECK(r[1][at] == labels[k]);
          kernels::BoxDeltas d{};
          if (positive) {
            d = kernels::Encode(b, gt[static_cast<size_t>(index[k])], {10, 10, 5, 5, 0});
          }
          CheckNear(Floats(r[2], at * 4, 4), {d.dx, d.dy, d.dw, d.dh}, 0);
          ++at;
        }
      }
      CHECK(r[3][n * 2] + r[3][n * 2 + 1] == static_cast<double>(candidates.size()));
      for (; at < (n + 1) * 128; ++at) CHECK(r[1][at] == -1);
    }
  }
}

TEST_CASE("RoI losses are torchvision's", "[detection]") {
  std::vector<int> labels;
  std::vector<float> targets = Stack(Frcnn(), "train.roi.targets", 2, 64, 4);
  std::vector<int> counts;
  // torchvision keeps the sampled in the order of the candidates; the loss doesn't mind.
  for (size_t n = 0; n < 2; ++n) {
    std::vector<int> all = Frcnn().Ints("train.roi.labels" + std::to_string(n));
    int positives = 0;
    for (int i : Frcnn().Ints("train.roi.sampled" + std::to_string(n))) {
      labels.push_back(all[static_cast<size_t>(i)]);
      positives += labels.back() > 0;
    }
    counts.insert(counts.end(), {positives, 64 - positives});
  }
  OpCase c{
      OpType::kRoiLoss,
      RoiLossAttrs{.num_classes = 3},
      {Given(Kind::kCompute, {128, 4}, Frcnn().Floats("train.roi.logits")),
       Given(Kind::kCompute, {128, 16}, Frcnn().Floats("train.roi.deltas")),
       Given(Kind::kI32, {2, 64}, labels), Given(Kind::kF32, {2, 64, 4}, targets),
       Given(Kind::kI32, {2, 2}, counts)},
      {{Kind::kF32, {2}, {}}, {Kind::kCompute, {128, 4}, {}}, {Kind::kCompute, {128, 16}, {}}}};
  for (Backend* backend : TestBackends()) {
    CaseResult r = RunCase(*backend, DType::kF32, c);
    CHECK(r[0][0] == Approx(Frcnn().Scalar("train.loss_classifier")).epsilon(1e-5));
    CHECK(r[0][1] == Approx(Frcnn().Scalar("train.loss_box_reg")).epsilon(1e-5));
  }
}

TEST_CASE("the pooled features of the small model are torchvision's", "[detection]") {
  RoiAlignAttrs attrs{.scales = {0.25f, 0.125f, 0.0625f, 0.03125f}};
  OpCase c{OpType::kRoiAlign, attrs, {}, {{Kind::kCompute, {128, 7, 7, 32}, {}}}};
  for (int l = 0; l < 4; ++l) {
    std::string key = "train.feature." + std::to_string(l);
    Shape s = Frcnn().shape(key);
    c.inputs.push_back(Given(Kind::kCompute, {s[0], s[2], s[3], s[1]}, Frcnn().Nhwc(key)));
  }
  c.inputs.push_back(Given(Kind::kF32, {2, 64, 4}, Stack(Frcnn(), "train.roi.rois", 2, 64, 4)));
  c.inputs.push_back(Given<int>(Kind::kI32, {2}, {64, 64}));
  for (Backend* backend : TestBackends()) {
    std::vector<double> y = RunCase(*backend, DType::kF32, c)[0];
    CheckNear(Floats(y, 0, 8 * 49 * 32), Frcnn().Nhwc("train.roi.pooled_first8"), 2e-4);
  }
}

TEST_CASE("detections are torchvision's", "[detection]") {
  DetectionAttrs attrs{.num_classes = 3, .max_detections = 30};
  OpCase c{
      OpType::kDetections,
      attrs,
      {Given(Kind::kCompute, {100, 4}, Frcnn().Floats("eval.roi_logits")),
       Given(Kind::kCompute, {100, 16}, Frcnn().Floats("eval.roi_deltas")),
       Given(Kind::kF32, {2, 50, 4}, Stack(Frcnn(), "eval.proposals", 2, 50, 4)),
       Given<int>(Kind::kI32, {2}, {50, 50}), Given<int>(Kind::kI32, {2, 2}, {96, 128, 96, 112})},
      {{Kind::kF32, {2, 30, 4}, {}},
       {Kind::kF32, {2, 30}, {}},
       {Kind::kI32, {2, 30}, {}},
       {Kind::kI32, {2}, {}}}};
  for (Backend* backend : TestBackends()) {
    CaseResult r = RunCase(*backend, DType::kF32, c);
    for (size_t n = 0; n < 2; ++n) {
      std::string i = std::to_string(n);
      std::vector<int> labels = Frcnn().Ints("eval.labels" + i);
      REQUIRE(r[3][n] == static_cast<double>(labels.size()));
      CheckNear(Floats(r[0], n * 120, labels.size() * 4), Frcnn().Floats("eval.boxes" + i), 1e-3);
      CheckNear(Floats(r[1], n * 30, labels.size()), Frcnn().Floats("eval.scores" + i), 1e-5);
      for (size_t k = 0; k < 30; ++k) {
        CHECK(r[2][n * 30 + k] == (k < labels.size() ? labels[k] - 1 : 0));
      }
    }
  }
}

}  // namespace xp::graph
