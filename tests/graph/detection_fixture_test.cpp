// Boxes, anchors, matching, suppression and RoIAlign against what torchvision computed
// (tests/fixtures), on every backend in f32.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/detection_fixture.h"
#include "kernels/roi_geometry.h"

namespace xp::graph {

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

}  // namespace xp::graph
