// Detection operations against what torchvision computed (tests/fixtures), on every backend in f32.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "catch.h"
#include "graph/fixture.h"
#include "graph/op_case.h"
#include "kernels/anchors.h"
#include "kernels/roi_geometry.h"
#include "src/graph/cpu/box_matching.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph {

namespace {

using kernels::Box;

std::vector<Box> Boxes(const std::vector<float>& v) {
  std::vector<Box> out;
  for (size_t i = 0; i + 3 < v.size(); i += 4) out.push_back({v[i], v[i + 1], v[i + 2], v[i + 3]});
  return out;
}

std::vector<float> Floats(const std::vector<double>& v, size_t begin, size_t count) {
  auto from = v.begin() + static_cast<long>(begin);
  return {from, from + static_cast<long>(count)};
}

void CheckNear(const std::vector<double>& got, const std::vector<float>& expected,
               double tolerance) {
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, std::fabs(got[i] - expected[i]));
    if (std::isnan(got[i])) worst = HUGE_VAL;
  }
  CHECK(worst <= tolerance);
}

void CheckNear(const std::vector<float>& got, const std::vector<float>& expected,
               double tolerance) {
  CheckNear(std::vector<double>(got.begin(), got.end()), expected, tolerance);
}

// torchvision's AnchorGenerator: rounded base anchors, stride = image size / map size.
AnchorLevel Level(int image_h, int image_w, int h, int w, float size) {
  AnchorLevel level{h, w, static_cast<float>(image_h / h), static_cast<float>(image_w / w), {}};
  for (float ratio : {0.5f, 1.0f, 2.0f}) {
    float root = std::sqrt(ratio), width = size / root, height = size * root;
    for (float v : {-width, -height, width, height}) level.base.push_back(std::nearbyint(v / 2));
  }
  return level;
}

std::vector<AnchorLevel> SmallLevels() {
  std::vector<AnchorLevel> levels;
  int h[] = {24, 12, 6, 3, 2}, w[] = {32, 16, 8, 4, 2};
  for (int l = 0; l < 5; ++l) {
    levels.push_back(Level(96, 128, h[l], w[l], static_cast<float>(8 << l)));
  }
  return levels;
}

const Fixture& Ops() {
  static const Fixture fixture("ops.safetensors");
  return fixture;
}
const Fixture& Frcnn() {
  static const Fixture fixture("frcnn_small.safetensors");
  return fixture;
}
const Fixture& Ssd() {
  static const Fixture fixture("ssd.safetensors");
  return fixture;
}

// Two images' worth of `name`0, `name`1 in rows of `capacity`.
std::vector<float> Stack(const Fixture& f, const std::string& name, size_t images, size_t capacity,
                         size_t width) {
  std::vector<float> out(images * capacity * width, 0.0f);
  for (size_t n = 0; n < images; ++n) {
    std::vector<float> v = f.Floats(name + std::to_string(n));
    std::copy(v.begin(), v.end(), out.begin() + static_cast<long>(n * capacity * width));
  }
  return out;
}

CaseTensor GtBoxes() {
  return Given(Kind::kF32, {2, 6, 4}, Stack(Frcnn(), "input.boxes", 2, 6, 4));
}
CaseTensor GtCounts() { return Given<int>(Kind::kI32, {2}, {4, 2}); }
CaseTensor Key() { return Given<uint32_t>(Kind::kU32, {4}, {7, 0, 3, 0}); }

void AddMaps(OpCase* c) {
  for (const char* name : {"train.rpn.objectness", "train.rpn.deltas"}) {
    for (int l = 0; l < 5; ++l) {
      std::string key = name + std::to_string(l);
      Shape s = Frcnn().shape(key);
      c->inputs.push_back(Given(Kind::kCompute, {s[0], s[2], s[3], s[1]}, Frcnn().Nhwc(key)));
    }
  }
}

}  // namespace

TEST_CASE("box coder gives torchvision's deltas and boxes", "[detection]") {
  for (const std::string name : {"rpn", "roi"}) {
    std::string c = "box_coder." + name + ".";
    BoxCoder coder;
    if (name == "roi") coder.weights = {10, 10, 5, 5};
    kernels::CoderParams params = ToParams(coder);
    std::vector<Box> from = Boxes(Ops().Floats(c + "proposals"));
    std::vector<Box> to = Boxes(Ops().Floats(c + "reference"));
    std::vector<float> deltas = Ops().Floats(c + "deltas"), encoded, decoded;
    for (size_t i = 0; i < from.size(); ++i) {
      kernels::BoxDeltas e = kernels::Encode(from[i], to[i], params);
      encoded.insert(encoded.end(), {e.dx, e.dy, e.dw, e.dh});
      for (size_t k = 0; k < 3; ++k) {
        const float* d = &deltas[i * 12 + k * 4];
        Box b = kernels::Decode(from[i], {d[0], d[1], d[2], d[3]}, params);
        decoded.insert(decoded.end(), {b.x1, b.y1, b.x2, b.y2});
      }
    }
    CheckNear(encoded, Ops().Floats(c + "encoded"), 2e-5);
    std::vector<float> expected = Ops().Floats(c + "decoded");
    for (size_t i = 0; i < decoded.size(); ++i) {
      CHECK(decoded[i] == Approx(expected[i]).epsilon(2e-6).margin(2e-4));
    }
  }
}

TEST_CASE("anchors are torchvision's", "[detection]") {
  for (auto [name, h, w] :
       {std::tuple{"anchors.64x96.anchors", 64, 96}, {"anchors.128x160.anchors", 128, 160}}) {
    std::vector<AnchorLevel> levels;
    int mh = h / 4, mw = w / 4;
    for (int l = 0; l < 5; ++l, mh = (mh + 1) / 2, mw = (mw + 1) / 2) {
      levels.push_back(Level(h, w, mh, mw, static_cast<float>(32 << l)));
    }
    Anchors anchors = MakeAnchors(Op{OpType::kRpnTargets, {}, {}, NoAttrs{}, "a"}, levels);
    std::vector<float> got;
    for (int i = 0; i < anchors.grid.total(); ++i) {
      int level = kernels::LevelOf(anchors.grid, i);
      Box b = kernels::AnchorAt(anchors.grid, level, i - anchors.grid.first[level]);
      got.insert(got.end(), {b.x1, b.y1, b.x2, b.y2});
    }
    CheckNear(got, Ops().Floats(name), 0);
  }
}

TEST_CASE("matching is torchvision's, ties and boxes given twice included", "[detection]") {
  std::vector<Box> truth = Boxes(Ops().Floats("matcher.truth"));
  std::vector<Box> boxes = Boxes(Ops().Floats("matcher.candidates"));
  std::vector<float> iou = Ops().Floats("matcher.iou"), mine;
  for (const Box& t : truth) {
    for (const Box& b : boxes) mine.push_back(kernels::Iou(t, b));
  }
  CheckNear(mine, iou, 1e-6);
  for (auto [name, high, low, every] : {std::tuple{"rpn", 0.7f, 0.3f, true},
                                        {"roi", 0.5f, 0.5f, false},
                                        {"ssd", 0.5f, 0.5f, true}}) {
    std::vector<int32_t> matched(boxes.size());
    cpu::MatchBoxes(2, boxes, truth, ToParams(Matcher{high, low, every, 0, false}), matched.data());
    CHECK(matched == Ops().Ints(std::string("matcher.") + name + ".matches"));
  }
}

TEST_CASE("suppression keeps what torchvision keeps", "[detection]") {
  for (auto [name, threshold] : {std::pair{"nms.30", 0.3f}, {"nms.50", 0.5f}, {"nms.70", 0.7f}}) {
    std::string c = name;
    std::vector<Box> boxes = Boxes(Ops().Floats(c + ".boxes")), ranked;
    std::vector<float> scores = Ops().Floats(c + ".scores");
    std::vector<uint64_t> keys;
    for (size_t i = 0; i < boxes.size(); ++i) {
      keys.push_back(cpu::RankKey(scores[i], static_cast<uint32_t>(i)));
    }
    cpu::KeepBest(keys, 1000);
    for (uint64_t key : keys) ranked.push_back(boxes[cpu::RankNumber(key)]);
    std::vector<int32_t> kept;
    for (int32_t i : cpu::Suppress(ranked, threshold, 1000)) {
      kept.push_back(static_cast<int32_t>(cpu::RankNumber(keys[static_cast<size_t>(i)])));
    }
    CHECK(kept == Ops().Ints(c + ".keep"));
  }
}

TEST_CASE("boxes go to torchvision's levels, at the borders too", "[detection]") {
  kernels::RoiParams params{4, {}, {}, {}, 7, 2, false, 4, 224, 2};
  std::vector<Box> boxes = Boxes(Ops().Floats("roi_level.canonical224.boxes"));
  std::vector<int32_t> levels;
  for (const Box& b : boxes) levels.push_back(kernels::RoiLevel(b, params) + 2);
  CHECK(levels == Ops().Ints("roi_level.canonical224.levels"));
}

TEST_CASE("RoIAlign and its gradient are torchvision's", "[detection]") {
  for (const std::string group : {"inside", "outside", "tiny"}) {
    for (auto [name, ratio, aligned] : {std::tuple{"sampling2", 2, false},
                                        {"aligned", 2, true},
                                        {"adaptive_aligned", -1, true}}) {
      std::string c = "roi_align." + group + "." + name + ".";
      INFO(c);
      std::vector<float> rows = Ops().Floats(c + "rois"), rois(2 * 8 * 4);
      std::vector<int> counts(2);
      std::vector<size_t> place;  // row of the fixture -> row of ours
      for (size_t i = 0; i < rows.size(); i += 5) {
        size_t image = static_cast<size_t>(rows[i]),
               at = image * 8 + static_cast<size_t>(counts[image]++);
        std::copy_n(&rows[i + 1], 4, &rois[at * 4]);
        place.push_back(at);
      }
      Shape in = Ops().shape(c + "input"), out = Ops().shape(c + "output");
      int64_t size = out[2], ch = in[1];
      RoiAlignAttrs attrs{.scales = {0.25f},
                          .output = static_cast<int>(size),
                          .sampling_ratio = ratio,
                          .aligned = aligned};
      OpCase forward{OpType::kRoiAlign,
                     attrs,
                     {Given(Kind::kCompute, {in[0], in[2], in[3], ch}, Ops().Nhwc(c + "input")),
                      Given(Kind::kF32, {2, 8, 4}, rois), Given(Kind::kI32, {2}, counts)},
                     {{Kind::kCompute, {16, size, size, ch}, {}}}};
      std::vector<float> dy(static_cast<size_t>(NumElements({16, size, size, ch})), 0.5f);
      std::vector<float> expected = Ops().Nhwc(c + "output"), given = Ops().Nhwc(c + "grad_output");
      size_t row = static_cast<size_t>(size * size * ch);
      for (size_t i = 0; i < place.size(); ++i) {
        std::copy_n(given.begin() + static_cast<long>(i * row), row,
                    dy.begin() + static_cast<long>(place[i] * row));
      }
      OpCase backward{
          OpType::kRoiAlignGrad,
          attrs,
          {Given(Kind::kCompute, {16, size, size, ch}, dy), forward.inputs[1], forward.inputs[2]},
          {{Kind::kCompute, {in[0], in[2], in[3], ch}, {}}}};
      for (Backend* backend : TestBackends()) {
        std::vector<double> y = RunCase(*backend, DType::kF32, forward)[0];
        for (size_t i = 0; i < place.size(); ++i) {
          CheckNear(Floats(y, place[i] * row, row),
                    {expected.begin() + static_cast<long>(i * row),
                     expected.begin() + static_cast<long>((i + 1) * row)},
                    1e-5);
        }
        for (size_t r = 0; r < 16; ++r) {  // rows beyond the counts
          if (static_cast<int>(r % 8) < counts[r / 8]) continue;
          CheckNear(Floats(y, r * row, row), std::vector<float>(row, 0.0f), 0);
        }
        CheckNear(RunCase(*backend, DType::kF32, backward)[0], Ops().Nhwc(c + "grad_input"), 5e-5);
      }
    }
  }
}

TEST_CASE("RoIAlign over four levels is torchvision's", "[detection]") {
  std::vector<float> rois = Stack(Ops(), "multi_roi_align.boxes", 2, 11, 4);
  RoiAlignAttrs attrs{.scales = {0.25f, 0.125f, 0.0625f, 0.03125f}, .canonical_size = 56};
  OpCase forward{OpType::kRoiAlign, attrs, {}, {{Kind::kCompute, {22, 7, 7, 3}, {}}}};
  OpCase backward{OpType::kRoiAlignGrad, attrs, {}, {}};
  std::vector<float> dy(22 * 147), given = Ops().Nhwc("multi_roi_align.grad_output");
  std::copy_n(given.begin(), 18 * 147, dy.begin());
  backward.inputs.push_back(Given(Kind::kCompute, {22, 7, 7, 3}, dy));
  for (int l = 0; l < 4; ++l) {
    std::string key = "multi_roi_align.input" + std::to_string(l);
    Shape s = Ops().shape(key);
    forward.inputs.push_back(Given(Kind::kCompute, {s[0], s[2], s[3], s[1]}, Ops().Nhwc(key)));
    backward.outputs.push_back({Kind::kCompute, {s[0], s[2], s[3], s[1]}, {}});
  }
  for (OpCase* c : {&forward, &backward}) {
    c->inputs.push_back(Given(Kind::kF32, {2, 11, 4}, rois));
    c->inputs.push_back(Given<int>(Kind::kI32, {2, 2}, {4, 7, 0, 7}));
  }
  for (Backend* backend : TestBackends()) {
    CheckNear(Floats(RunCase(*backend, DType::kF32, forward)[0], 0, 18 * 147),
              Ops().Nhwc("multi_roi_align.output"), 1e-5);
    CaseResult grads = RunCase(*backend, DType::kF32, backward);
    for (size_t l = 0; l < 4; ++l) {
      CheckNear(grads[l], Ops().Nhwc("multi_roi_align.grad_input" + std::to_string(l)), 3e-5);
    }
  }
}

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
