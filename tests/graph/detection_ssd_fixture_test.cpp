// SSD's targets, losses and detections against what torchvision computed (tests/fixtures), on every
// backend in f32.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/detection_fixture.h"
#include "kernels/roi_geometry.h"

namespace xp::graph {

namespace {

SsdAttrs SmallSsd() {
  SsdAttrs attrs{.levels = {{8, 8, 4}, {4, 4, 6}, {2, 2, 6}, {1, 1, 4}}, .num_classes = 4};
  attrs.boxes = Ssd().Floats("ssd.loss.default_boxes");
  attrs.min_score = 0.05f;
  attrs.candidates = 60;
  attrs.max_detections = 30;
  return attrs;
}

// [N, 380, width] as a map a level.
std::vector<CaseTensor> SsdMaps(const std::string& name, int64_t width) {
  std::vector<float> all = Ssd().Floats(name);
  std::vector<CaseTensor> maps;
  int64_t first = 0;
  for (const SsdLevel& level : SmallSsd().levels) {
    int64_t count = level.height * level.width * level.per_cell;
    std::vector<float> values;
    for (int64_t n = 0; n < 3; ++n) {
      auto from = all.begin() + static_cast<long>((n * 380 + first) * width);
      values.insert(values.end(), from, from + static_cast<long>(count * width));
    }
    maps.push_back(
        Given(Kind::kCompute, {3, level.height, level.width, level.per_cell * width}, values));
    first += count;
  }
  return maps;
}

CaseTensor SsdGt() { return Given(Kind::kF32, {3, 5, 4}, Stack(Ssd(), "ssd.loss.boxes", 3, 5, 4)); }
CaseTensor SsdLabels() {
  std::vector<float> labels = Stack(Ssd(), "ssd.loss.labels", 3, 5, 1);
  for (float& v : labels) v -= 1;
  return Given(Kind::kI32, {3, 5}, labels);
}
CaseTensor SsdCounts() { return Given<int>(Kind::kI32, {3}, {4, 2, 0}); }

}  // namespace

TEST_CASE("SSD's targets and losses are torchvision's", "[detection]") {
  OpCase targets{OpType::kSsdTargets,
                 SmallSsd(),
                 {SsdGt(), SsdLabels(), SsdCounts()},
                 {{Kind::kI32, {3, 380}, {}}, {Kind::kI32, {3}, {}}}};
  OpCase loss{
      OpType::kSsdLoss, SmallSsd(), SsdMaps("ssd.loss.cls_logits", 5), {{Kind::kF32, {2}, {}}}};
  std::vector<CaseTensor> boxes = SsdMaps("ssd.loss.bbox_regression", 4);
  std::vector<CaseTensor> dcls = SsdMaps("ssd.loss.grad_cls_logits", 5);
  std::vector<CaseTensor> dbox = SsdMaps("ssd.loss.grad_bbox_regression", 4);
  loss.inputs.insert(loss.inputs.end(), boxes.begin(), boxes.end());
  for (const CaseTensor& t : loss.inputs) loss.outputs.push_back({Kind::kCompute, t.shape, {}});
  for (Backend* backend : TestBackends()) {
    CaseResult t = RunCase(*backend, DType::kF32, targets);
    for (size_t n = 0; n < 3; ++n) {
      std::vector<int> expected = Ssd().Ints("ssd.loss.matches" + std::to_string(n));
      int positives = 0;
      for (size_t i = 0; i < 380; ++i) {
        CHECK(t[0][n * 380 + i] == expected[i]);
        positives += expected[i] >= 0;
      }
      CHECK(t[1][n] == positives);
    }
    OpCase c = loss;
    c.inputs.push_back(Given(Kind::kI32, {3, 380}, t[0]));
    c.inputs.push_back(Given(Kind::kI32, {3}, t[1]));
    c.inputs.push_back(SsdGt());
    c.inputs.push_back(SsdLabels());
    CaseResult r = RunCase(*backend, DType::kF32, c);
    CHECK(r[0][0] == Approx(Ssd().Scalar("ssd.loss.loss_cls")).epsilon(1e-5));
    CHECK(r[0][1] == Approx(Ssd().Scalar("ssd.loss.loss_bbox")).epsilon(1e-5));
    for (size_t l = 0; l < 4; ++l) {
      CheckNear(r[1 + l], std::vector<float>(dcls[l].values.begin(), dcls[l].values.end()), 1e-6);
      CheckNear(r[5 + l], std::vector<float>(dbox[l].values.begin(), dbox[l].values.end()), 1e-6);
    }
  }
}

TEST_CASE("SSD's detections are torchvision's", "[detection]") {
  OpCase c{OpType::kSsdDetections,
           SmallSsd(),
           SsdMaps("ssd.detect.cls_logits", 5),
           {{Kind::kF32, {3, 30, 4}, {}},
            {Kind::kF32, {3, 30}, {}},
            {Kind::kI32, {3, 30}, {}},
            {Kind::kI32, {3}, {}}}};
  std::vector<CaseTensor> boxes = SsdMaps("ssd.detect.bbox_regression", 4);
  c.inputs.insert(c.inputs.end(), boxes.begin(), boxes.end());
  c.inputs.push_back(Given<int>(Kind::kI32, {3, 2}, {64, 64, 64, 64, 64, 64}));
  for (Backend* backend : TestBackends()) {
    CaseResult r = RunCase(*backend, DType::kF32, c);
    for (size_t n = 0; n < 3; ++n) {
      std::string i = std::to_string(n);
      std::vector<int> labels = Ssd().Ints("ssd.detect.labels" + i);
      CHECK(r[3][n] == static_cast<double>(labels.size()));
      CheckNear(Floats(r[0], n * 120, labels.size() * 4), Ssd().Floats("ssd.detect.boxes" + i),
                1e-3);
      CheckNear(Floats(r[1], n * 30, labels.size()), Ssd().Floats("ssd.detect.scores" + i), 1e-5);
      for (size_t k = 0; k < labels.size(); ++k) CHECK(r[2][n * 30 + k] == labels[k] - 1);
    }
  }
}

}  // namespace xp::graph
