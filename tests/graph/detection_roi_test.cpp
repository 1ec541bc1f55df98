// The box head's operations: targets, RoIAlign, loss and detections against plain references
// written here, and the CUDA kernels against the CPU.
#include <algorithm>
#include <numeric>

#include "catch.h"
#include "graph/detection_support.h"
#include "kernels/sampling.h"

namespace xp::graph {

namespace {

using kernels::Box;

float PlainIou(const Box& a, const Box& b) {
  float w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  float h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (w <= 0 || h <= 0) return 0;
  float inter = w * h;
  return inter / ((a.x2 - a.x1) * (a.y2 - a.y1) + (b.x2 - b.x1) * (b.y2 - b.y1) - inter);
}

// ---- targets

struct TargetInput {
  std::vector<int> proposals, gt;  // counts an image
  int proposal_capacity, gt_capacity;
};

OpCase TargetCase(Random& random, const TargetInput& in, const RoiTargetAttrs& attrs) {
  int64_t n = static_cast<int64_t>(in.gt.size()), r = attrs.samples;
  std::vector<int> labels;
  for (int64_t i = 0; i < n * in.gt_capacity; ++i)
    labels.push_back(random.Below(attrs.num_classes));
  OpCase c{OpType::kRoiTargets,
           attrs,
           {RandomBoxes(random, in.proposals, in.proposal_capacity, 61, 83), Counts(in.proposals),
            RandomBoxes(random, in.gt, in.gt_capacity, 61, 83),
            Given(Kind::kI32, {n, in.gt_capacity}, labels), Counts(in.gt), StepKey(11, 2)},
           {{Kind::kF32, {n, r, 4}, {}},
            {Kind::kI32, {n, r}, {}},
            {Kind::kF32, {n, r, 4}, {}},
            {Kind::kI32, {n, 2}, {}}}};
  // Proposals near ground truth, so that there are positives.
  std::vector<double>& boxes = c.inputs[0].values;
  for (size_t i = 0; i < in.gt.size(); ++i) {
    for (int p = 0; p < in.proposals[i] && in.gt[i] > 0; p += 3) {
      size_t from = i * static_cast<size_t>(in.gt_capacity) + static_cast<size_t>(p % in.gt[i]);
      size_t to = i * static_cast<size_t>(in.proposal_capacity) + static_cast<size_t>(p);
      for (size_t k = 0; k < 4; ++k) {
        boxes[to * 4 + k] =
            static_cast<float>(c.inputs[2].values[from * 4 + k]) + random.Uniform(-2, 2);
      }
    }
  }
  return c;
}

struct PlainRoi {
  uint32_t key;
  int element, gt;  // gt -1: background
  Box box;
};

void CheckTargets(const OpCase& c, const TargetInput& in) {
  const auto& attrs = std::get<RoiTargetAttrs>(c.attrs);
  CaseResult r = RunCase(*TestBackends()[0], DType::kF32, c);
  size_t samples = static_cast<size_t>(attrs.samples);
  kernels::StepKey key{11 + ((uint64_t{11} * 7919) << 32), 2, 0};
  for (size_t n = 0; n < in.gt.size(); ++n) {
    size_t gt_row = n * static_cast<size_t>(in.gt_capacity);
    std::vector<PlainRoi> kinds[2];  // positives, negatives
    auto consider = [&](const Box& box, int element) {
      float best = 0;
      int which = -1;
      for (int g = 0; g < in.gt[n]; ++g) {
        float iou = PlainIou(BoxAt(c.inputs[2].values, gt_row + static_cast<size_t>(g)), box);
        if (iou > best) {
          best = iou;
          which = g;
        }
      }
      bool positive = best >= attrs.matcher.positive;
      if (!positive && best >= attrs.matcher.negative) return;
      uint32_t k = kernels::SampleKey(key, RandomPurpose::kRoiSample, static_cast<uint32_t>(n),
                                      static_cast<uint32_t>(element));
      kinds[positive ? 0 : 1].push_back({k, element, positive ? which : -1, box});
    };
    for (int p = 0; p < in.proposals[n]; ++p) {
      size_t row = n * static_cast<size_t>(in.proposal_capacity) + static_cast<size_t>(p);
      consider(BoxAt(c.inputs[0].values, row), p);
    }
    for (int g = 0; g < in.gt[n] && attrs.add_ground_truth; ++g) {
      consider(BoxAt(c.inputs[2].values, gt_row + static_cast<size_t>(g)),
               in.proposal_capacity + g);
    }
    size_t limit = static_cast<size_t>(static_cast<float>(samples) * attrs.positive_fraction);
    std::vector<PlainRoi> expected;
    size_t counts[2];
    for (int kind = 0; kind < 2; ++kind) {
      std::vector<PlainRoi>& list = kinds[kind];
      std::sort(list.begin(), list.end(),
                [](const PlainRoi& a, const PlainRoi& b) { return a.key < b.key; });
      list.resize(std::min(list.size(), limit));
      std::sort(list.begin(), list.end(),
                [](const PlainRoi& a, const PlainRoi& b) { return a.element < b.element; });
      counts[kind] = list.size();
      limit = samples - list.size();
      expected.insert(expected.end(), list.begin(), list.end());
    }
    CHECK(r[3][2 * n] == static_cast<double>(counts[0]));
    CHECK(r[3][2 * n + 1] == static_cast<double>(counts[1]));
    for (size_t i = 0; i < samples; ++i) {
      size_t row = n * samples + i;
      Box box{};
      int label = -1;
      double t[4] = {0, 0, 0, 0};
      if (i < expected.size()) {
        box = expected[i].box;
        label = attrs.background;
        if (expected[i].gt >= 0) {
          size_t g = gt_row + static_cast<size_t>(expected[i].gt);
          label = static_cast<int>(c.inputs[3].values[g]) + (attrs.background == 0 ? 1 : 0);
          Box b = BoxAt(c.inputs[2].values, g);
          double w = box.x2 - box.x1, h = box.y2 - box.y1, bw = b.x2 - b.x1, bh = b.y2 - b.y1;
          const auto& weights = attrs.coder.weights;
          t[0] = weights[0] * (b.x1 + bw / 2 - box.x1 - w / 2) / w;
          t[1] = weights[1] * (b.y1 + bh / 2 - box.y1 - h / 2) / h;
          t[2] = weights[2] * std::log(bw / w);
          t[3] = weights[3] * std::log(bh / h);
        }
      }
      REQUIRE(Flatten({BoxAt(r[0], row)}) == Flatten({box}));
      CHECK(r[1][row] == label);
      for (size_t k = 0; k < 4; ++k) CHECK(r[2][row * 4 + k] == Approx(t[k]).margin(2e-4));
    }
  }
  CompareBackends(c, {0, 1, 2, 3});
}

}  // namespace

TEST_CASE("RoI targets by a plain reference", "[detection]") {
  Random random(21);
  for (int images = 1; images <= 4; ++images) {
    TargetInput in{{}, {}, 90, 6};
    for (int n = 0; n < images; ++n) {
      in.proposals.push_back(random.Below(91));
      in.gt.push_back(1 + random.Below(6));
    }
    RoiTargetAttrs attrs{.samples = 33, .num_classes = 4};
    CheckTargets(TargetCase(random, in, attrs), in);
    attrs.background = 4;
    attrs.matcher.negative = 0.3f;  // some are ignored
    CheckTargets(TargetCase(random, in, attrs), in);
    attrs.add_ground_truth = false;
    attrs.coder.weights = {2, 4, 5, 8};
    CheckTargets(TargetCase(random, in, attrs), in);
  }
}

TEST_CASE("RoI targets without ground truth, without proposals, without both", "[detection]") {
  Random random(22);
  RoiTargetAttrs attrs{.samples = 16, .num_classes = 3};
  TargetInput in{{20, 0, 0, 5}, {0, 3, 0, 1}, 20, 3};
  CheckTargets(TargetCase(random, in, attrs), in);
  TargetInput none{{0, 0}, {0, 0}, 20, 3};
  OpCase c = TargetCase(random, none, attrs);
  CheckTargets(c, none);
}

TEST_CASE("RoI targets: boxes without area join nothing", "[detection]") {
  Random random(23);
  RoiTargetAttrs attrs{.samples = 16, .num_classes = 3};
  TargetInput in{{4}, {2}, 4, 2};
  OpCase c = TargetCase(random, in, attrs);
  c.inputs[2].values = {10, 10, 10, 20, std::nan(""), 0, 5, 5};
  CaseResult r = RunCase(*TestBackends()[0], DType::kF32, c);
  CHECK(r[3] == std::vector<double>{0, 4});
  for (double v : r[2]) CHECK(v == 0);
  CompareBackends(c, {0, 1, 2, 3});
}

// ---- RoIAlign

namespace {

struct AlignCase {
  OpCase forward, backward;
};

AlignCase MakeAlignCase(Random& random, int channels, RoiAlignAttrs attrs,
                        const std::vector<int>& counts, int capacity) {
  int64_t n = static_cast<int64_t>(counts.size()), rows = n * capacity, s = attrs.output;
  AlignCase c{{OpType::kRoiAlign, attrs, {}, {{Kind::kCompute, {rows, s, s, channels}, {}}}},
              {OpType::kRoiAlignGrad, attrs, {}, {}}};
  c.backward.inputs.push_back(
      Given(Kind::kCompute, {rows, s, s, channels}, random.Normals(rows * s * s * channels, 1)));
  for (float scale : attrs.scales) {
    Shape shape{n, static_cast<int64_t>(std::ceil(61 * scale)),
                static_cast<int64_t>(std::ceil(83 * scale)), channels};
    c.forward.inputs.push_back(Given(Kind::kCompute, shape, random.Normals(NumElements(shape), 1)));
    c.backward.outputs.push_back({Kind::kCompute, shape, {}});
  }
  CaseTensor rois = RandomBoxes(random, counts, capacity, 61, 83);
  for (OpCase* o : {&c.forward, &c.backward}) {
    o->inputs.push_back(rois);
    o->inputs.push_back(Counts(counts));
  }
  return c;
}

// y . dy of the forward pass: linear in the maps, so the gradient is exact by differences.
double Product(const AlignCase& c) {
  std::vector<double> y = RunCase(*TestBackends()[0], DType::kF32, c.forward, 1)[0];
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += y[i] * c.backward.inputs[0].values[i];
  return sum;
}

void CheckAlign(const AlignCase& c, Random& random) {
  CaseResult grads = RunCase(*TestBackends()[0], DType::kF32, c.backward);
  double before = Product(c);
  for (size_t l = 0; l < grads.size(); ++l) {
    for (int probe = 0; probe < 6; ++probe) {
      size_t i = static_cast<size_t>(random.Below(static_cast<int>(grads[l].size())));
      AlignCase moved = c;
      moved.forward.inputs[l].values[i] += 8;
      CHECK(grads[l][i] == Approx((Product(moved) - before) / 8).epsilon(1e-3).margin(1e-3));
    }
  }
  CompareBackends(c.forward);
  CompareBackends(c.backward);
}

}  // namespace

TEST_CASE("RoIAlign's gradient by differences; odd sizes, channels and levels", "[detection]") {
  Random random(24);
  RoiAlignAttrs one{.scales = {0.25f}, .output = 3, .sampling_ratio = 1};
  RoiAlignAttrs many{.scales = {0.5f, 0.25f, 0.125f}, .canonical_size = 40};
  RoiAlignAttrs adaptive{.scales = {0.5f, 0.25f},
                         .output = 5,
                         .sampling_ratio = 0,
                         .aligned = true,
                         .canonical_level = 2,
                         .canonical_size = 30};
  CheckAlign(MakeAlignCase(random, 1, one, {3, 0}, 3), random);
  CheckAlign(MakeAlignCase(random, 5, many, {7, 2, 9}, 9), random);
  CheckAlign(MakeAlignCase(random, 16, many, {20}, 21), random);
  CheckAlign(MakeAlignCase(random, 24, adaptive, {4, 6, 0, 1}, 6), random);
}

TEST_CASE("RoIAlign on the device: wide maps, many boxes of one place", "[detection]") {
  Random random(25);
  RoiAlignAttrs attrs{.scales = {0.5f, 0.25f, 0.125f}, .canonical_size = 40};
  for (int channels : {136, 256, 264}) {
    AlignCase c = MakeAlignCase(random, channels, attrs, {33, 12}, 40);
    std::vector<double>& rois = c.forward.inputs[3].values;
    for (size_t i = 4; i < 80; ++i) rois[i] = rois[i % 4] + 0.25 * static_cast<double>(i / 4 % 3);
    c.backward.inputs[1].values = rois;
    CompareBackends(c.forward);
    CompareBackends(c.backward);
  }
}

TEST_CASE("RoIAlign: boxes without area, outside, inside out and NaN do no harm", "[detection]") {
  Random random(26);
  for (bool aligned : {false, true}) {
    for (int ratio : {2, 0}) {
      RoiAlignAttrs attrs{
          .scales = {0.25f, 0.125f}, .output = 4, .sampling_ratio = ratio, .aligned = aligned};
      AlignCase c = MakeAlignCase(random, 8, attrs, {7}, 8);
      const double nan = std::nan("");
      c.forward.inputs[2].values = {5,    5,    5,     5,     30,   30,   20, 20, -50, -50, -20,
                                    -20,  200,  200,   300,   300,  nan,  0,  10, 10,  0,   0,
                                    1e30, 1e30, -1e30, -1e30, 1e30, 1e30, 0,  0,  0,   0};
      c.backward.inputs[1].values = c.forward.inputs[2].values;
      for (const OpCase& o : {c.forward, c.backward}) {
        for (const std::vector<double>& out : RunCase(*TestBackends()[0], DType::kF32, o)) {
          CHECK(std::all_of(out.begin(), out.end(), [](double v) { return std::isfinite(v); }));
        }
        CompareBackends(o);
      }
    }
  }
}

TEST_CASE("RoIAlign of no boxes at all gives zeros", "[detection]") {
  Random random(27);
  AlignCase c = MakeAlignCase(random, 8, {.scales = {0.25f}}, {0, 0}, 4);
  for (const OpCase& o : {c.forward, c.backward}) {
    for (const std::vector<double>& out : RunCase(*TestBackends()[0], DType::kF32, o)) {
      CHECK(std::all_of(out.begin(), out.end(), [](double v) { return v == 0; }));
    }
    CompareBackends(o);
  }
}

// ---- loss

namespace {

OpCase LossCase(Random& random, const std::vector<int>& counts, int capacity, RoiLossAttrs attrs,
                bool scaled) {
  int64_t n = static_cast<int64_t>(counts.size()) / 2, rows = n * capacity;
  int64_t columns = attrs.num_classes + 1, deltas = attrs.class_agnostic ? 4 : columns * 4;
  std::vector<int> labels(static_cast<size_t>(rows), -1);
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    for (int k = 0; k < counts[2 * i] + counts[2 * i + 1]; ++k) {
      int object = random.Below(attrs.num_classes) + (attrs.background == 0 ? 1 : 0);
      labels[i * static_cast<size_t>(capacity) + static_cast<size_t>(k)] =
          k < counts[2 * i] ? object : attrs.background;
    }
  }
  OpCase c{OpType::kRoiLoss,
           attrs,
           {Given(Kind::kCompute, {rows, columns}, random.Normals(rows * columns, 2)),
            Given(Kind::kCompute, {rows, deltas}, random.Normals(rows * deltas, 1)),
            Given(Kind::kI32, {n, capacity}, labels),
            Given(Kind::kF32, {n, capacity, 4}, random.Normals(rows * 4, 1)),
            Given(Kind::kI32, {n, 2}, counts)},
           {{Kind::kF32, {2}, {}},
            {Kind::kCompute, {rows, columns}, {}},
            {Kind::kCompute, {rows, deltas}, {}}}};
  if (scaled) c.inputs.push_back(Given<float>(Kind::kF32, {1}, {128}));
  return c;
}

}  // namespace

TEST_CASE("RoI loss: gradients by finite differences, on every backend alike", "[detection]") {
  Random random(28);
  for (const RoiLossAttrs& attrs :
       {RoiLossAttrs{.num_classes = 3}, RoiLossAttrs{.num_classes = 5, .background = 5, .beta = 0},
        RoiLossAttrs{.num_classes = 80, .class_agnostic = true}, RoiLossAttrs{.num_classes = 1}}) {
    for (bool scaled : {false, true}) {
      OpCase c = LossCase(random, {2, 4, 0, 3, 0, 0}, 7, attrs, scaled);
      CheckGradient(c, 0, 1, 24, scaled ? 128 : 1);
      CheckGradient(c, 1, 2, 24, scaled ? 128 : 1);
      CompareBackends(c);
    }
  }
}

TEST_CASE("RoI loss: nothing sampled gives zeros; extreme logits stay finite", "[detection]") {
  Random random(29);
  OpCase none = LossCase(random, {0, 0}, 7, {.num_classes = 3}, false);
  for (const std::vector<double>& out : RunCase(*TestBackends()[0], DType::kF32, none)) {
    CHECK(std::all_of(out.begin(), out.end(), [](double v) { return v == 0; }));
  }
  CompareBackends(none);
  OpCase extreme = LossCase(random, {3, 4}, 7, {.num_classes = 3}, false);
  for (double& v : extreme.inputs[0].values) v *= 500;
  for (const std::vector<double>& out : RunCase(*TestBackends()[0], DType::kF32, extreme)) {
    CHECK(std::all_of(out.begin(), out.end(), [](double v) { return std::isfinite(v); }));
  }
  CompareBackends(extreme);
}

// ---- detections

namespace {

OpCase DetectionCase(Random& random, const std::vector<int>& counts, int capacity,
                     const DetectionAttrs& attrs, float digits) {
  int64_t n = static_cast<int64_t>(counts.size()), rows = n * capacity, d = attrs.max_detections;
  int64_t columns = attrs.num_classes + 1, deltas = attrs.class_agnostic ? 4 : columns * 4;
  std::vector<float> logits = random.Normals(rows * columns, 2);
  for (float& v : logits) v = std::nearbyint(v * digits) / digits;
  std::vector<int> sizes;
  for (int i = 0; i < n; ++i) sizes.insert(sizes.end(), {61 - 3 * i, 83});
  return {OpType::kDetections,
          attrs,
          {Given(Kind::kCompute, {rows, columns}, logits),
           Given(Kind::kCompute, {rows, deltas}, random.Normals(rows * deltas, 1)),
           RandomBoxes(random, counts, capacity, 61, 83), Counts(counts),
           Given(Kind::kI32, {n, 2}, sizes)},
          {{Kind::kF32, {n, d, 4}, {}},
           {Kind::kF32, {n, d}, {}},
           {Kind::kI32, {n, d}, {}},
           {Kind::kI32, {n}, {}}}};
}

struct PlainDetection {
  Box box;
  float score;
  int label;
};

std::vector<PlainDetection> PlainDetections(const OpCase& c, size_t image) {
  const auto& attrs = std::get<DetectionAttrs>(c.attrs);
  size_t capacity = static_cast<size_t>(c.inputs[2].shape[1]);
  size_t columns = static_cast<size_t>(attrs.num_classes) + 1;
  std::vector<PlainDetection> all, kept;
  for (size_t i = 0; i < static_cast<size_t>(c.inputs[3].values[image]); ++i) {
    size_t row = image * capacity + i;
    float sum = 0, most = -HUGE_VALF;
    std::vector<float> p;
    for (size_t k = 0; k < columns; ++k) {
      most = std::max(most, static_cast<float>(c.inputs[0].values[row * columns + k]));
    }
    for (size_t k = 0; k < columns; ++k) {
      p.push_back(
          kernels::PortableExp(static_cast<float>(c.inputs[0].values[row * columns + k]) - most));
      sum += p.back();
    }
    for (int label = 0; label < attrs.num_classes; ++label) {
      size_t column = static_cast<size_t>(attrs.background == 0 ? label + 1 : label);
      const double* d = attrs.class_agnostic ? &c.inputs[1].values[row * 4]
                                             : &c.inputs[1].values[(row * columns + column) * 4];
      auto f = [&](int k) { return static_cast<float>(d[k]); };
      const auto& w = attrs.coder.weights;
      Box b = kernels::Decode(BoxAt(c.inputs[2].values, row), {f(0), f(1), f(2), f(3)},
                              {w[0], w[1], w[2], w[3], attrs.coder.clip});
      b = kernels::Clip(b, static_cast<float>(c.inputs[4].values[image * 2]),
                        static_cast<float>(c.inputs[4].values[image * 2 + 1]));
      float score = p[column] / sum;
      if (score > attrs.min_score && b.x2 - b.x1 >= attrs.min_size &&
          b.y2 - b.y1 >= attrs.min_size) {
        all.push_back({b, score, label});
      }
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const PlainDetection& a, const PlainDetection& b) {
    return a.score > b.score;
  });
  for (const PlainDetection& x : all) {
    bool stays = true;
    for (const PlainDetection& k : kept) {
      if (k.label == x.label && PlainIou(k.box, x.box) > attrs.nms_iou) stays = false;
    }
    if (stays) kept.push_back(x);
  }
  kept.resize(std::min(kept.size(), static_cast<size_t>(attrs.max_detections)));
  return kept;
}

void CheckDetections(const OpCase& c) {
  CaseResult r = RunCase(*TestBackends()[0], DType::kF32, c);
  size_t capacity = static_cast<size_t>(c.outputs[1].shape[1]);
  for (size_t n = 0; n < r[3].size(); ++n) {
    std::vector<PlainDetection> expected = PlainDetections(c, n);
    REQUIRE(r[3][n] == static_cast<double>(expected.size()));
    expected.resize(capacity, {Box{}, 0, 0});
    for (size_t i = 0; i < capacity; ++i) {
      REQUIRE(Flatten({BoxAt(r[0], n * capacity + i)}) == Flatten({expected[i].box}));
      CHECK(r[1][n * capacity + i] == expected[i].score);
      CHECK(r[2][n * capacity + i] == expected[i].label);
    }
  }
  CompareBackends(c, {0, 1, 2, 3});
}

}  // namespace

TEST_CASE("detections by a plain reference", "[detection]") {
  Random random(30);
  for (int images = 1; images <= 4; ++images) {
    std::vector<int> counts;
    for (int i = 0; i < images; ++i) counts.push_back(random.Below(41));
    for (float digits : {1000.0f, 1.0f}) {
      DetectionAttrs attrs{.num_classes = 4, .max_detections = 30};
      CheckDetections(DetectionCase(random, counts, 40, attrs, digits));
      attrs.background = 4;
      attrs.max_detections = 300;  // more room than there are
      CheckDetections(DetectionCase(random, counts, 40, attrs, digits));
      attrs.class_agnostic = true;
      attrs.min_size = 10;
      attrs.coder.weights = {2, 4, 5, 8};
      CheckDetections(DetectionCase(random, counts, 40, attrs, digits));
    }
  }
}

TEST_CASE("detections: many classes, no score limit, hundreds of boxes", "[detection]") {
  Random random(31);
  DetectionAttrs attrs{.num_classes = 13, .min_score = 0, .max_detections = 100};
  CheckDetections(DetectionCase(random, {211, 150}, 211, attrs, 1000));
}

TEST_CASE("detections: none, and of a diverged network", "[detection]") {
  Random random(32);
  DetectionAttrs attrs{.num_classes = 4, .max_detections = 10};
  CheckDetections(DetectionCase(random, {0, 0}, 5, attrs, 1000));
  OpCase c = DetectionCase(random, {40, 40}, 40, attrs, 1000);
  for (size_t i = 0; i < 2; ++i) {
    for (size_t k = i; k < c.inputs[i].values.size(); k += 9) c.inputs[i].values[k] = std::nan("");
    for (size_t k = i + 4; k < c.inputs[i].values.size(); k += 11) c.inputs[i].values[k] = HUGE_VAL;
  }
  for (const std::vector<double>& out : RunCase(*TestBackends()[0], DType::kF32, c)) {
    CHECK(std::all_of(out.begin(), out.end(), [](double v) { return std::isfinite(v); }));
  }
  CompareBackends(c, {0, 1, 2, 3});
}

}  // namespace xp::graph
