// The single shot detector's operations against plain references written here, and the CUDA kernels
// against the CPU.
#include <algorithm>
#include <numeric>

#include "catch.h"
#include "graph/detection_support.h"

namespace xp::graph {

namespace {

using kernels::Box;

constexpr int kBoxes = 5 * 7 * 3 + 2 * 3 * 4 + 2;

// Default boxes anywhere: the operations don't ask how they were made.
SsdAttrs RandomAttrs(Random& random) {
  SsdAttrs attrs{.levels = {{5, 7, 3}, {2, 3, 4}, {1, 1, 2}}, .num_classes = 3};
  for (int i = 0; i < kBoxes; ++i) {
    std::vector<float> b = Flatten({random.Box(61, 83)});
    attrs.boxes.insert(attrs.boxes.end(), b.begin(), b.end());
  }
  attrs.coder.weights = {10, 8, 5, 4};
  attrs.candidates = 40;
  attrs.max_detections = 30;
  return attrs;
}

OpCase TargetCase(Random& random, const SsdAttrs& attrs, const std::vector<int>& counts) {
  int64_t n = static_cast<int64_t>(counts.size());
  std::vector<int> labels;
  for (int64_t i = 0; i < n * 6; ++i) labels.push_back(random.Below(attrs.num_classes));
  return {
      OpType::kSsdTargets,
      attrs,
      {RandomBoxes(random, counts, 6, 61, 83), Given(Kind::kI32, {n, 6}, labels), Counts(counts)},
      {{Kind::kI32, {n, kBoxes}, {}}, {Kind::kI32, {n}, {}}}};
}

// cls and box maps of all levels, with `digits` steps in a unit.
std::vector<CaseTensor> Maps(Random& random, const SsdAttrs& attrs, int64_t images, float digits) {
  std::vector<CaseTensor> maps;
  for (int64_t width : {attrs.num_classes + 1, 4}) {
    for (const SsdLevel& l : attrs.levels) {
      Shape shape{images, l.height, l.width, l.per_cell * width};
      std::vector<float> v = random.Normals(NumElements(shape), 1.5f);
      for (float& x : v) x = std::nearbyint(x * digits) / digits;
      maps.push_back(Given(Kind::kCompute, shape, v));
    }
  }
  return maps;
}

OpCase LossCase(Random& random, const SsdAttrs& attrs, const std::vector<int>& counts, float digits,
                bool scaled) {
  OpCase targets = TargetCase(random, attrs, counts);
  CaseResult t = RunCase(*TestBackends()[0], DType::kF32, targets);
  int64_t n = static_cast<int64_t>(counts.size());
  OpCase c{OpType::kSsdLoss, attrs, Maps(random, attrs, n, digits), {{Kind::kF32, {2}, {}}}};
  for (const CaseTensor& m : c.inputs) c.outputs.push_back({Kind::kCompute, m.shape, {}});
  c.inputs.push_back(Given(Kind::kI32, {n, kBoxes}, t[0]));
  c.inputs.push_back(Given(Kind::kI32, {n}, t[1]));
  c.inputs.push_back(targets.inputs[0]);
  c.inputs.push_back(targets.inputs[1]);
  if (scaled) c.inputs.push_back(Given<float>(Kind::kF32, {1}, {32}));
  return c;
}

// Value j of default box i of image n, in maps of `width` numbers a box, the first being
// maps[first].
double At(const OpCase& c, size_t first, size_t n, size_t i, size_t width, size_t j) {
  const auto& attrs = std::get<SsdAttrs>(c.attrs);
  for (size_t l = 0;; ++l) {
    const SsdLevel& s = attrs.levels[l];
    size_t count = static_cast<size_t>(s.height * s.width * s.per_cell);
    if (i < count) return c.inputs[first + l].values[((n * count) + i) * width + j];
    i -= count;
  }
}

Box DefaultBox(const SsdAttrs& attrs, size_t i) {
  const float* b = &attrs.boxes[i * 4];
  return {b[0], b[1], b[2], b[3]};
}

void CheckLoss(const OpCase& c) {
  const auto& attrs = std::get<SsdAttrs>(c.attrs);
  size_t columns = static_cast<size_t>(attrs.num_classes) + 1, images = c.inputs[7].values.size();
  double cls = 0, box = 0, positives = 0;
  for (size_t n = 0; n < images; ++n) {
    std::vector<std::pair<double, size_t>> negatives;
    double count = 0;
    for (size_t i = 0; i < kBoxes; ++i) {
      int g = static_cast<int>(c.inputs[6].values[n * kBoxes + i]);
      double sum = 0;
      for (size_t k = 0; k < columns; ++k) sum += std::exp(At(c, 0, n, i, columns, k));
      size_t row = n * 6 + static_cast<size_t>(std::max(g, 0));
      size_t target = g < 0 ? 0 : static_cast<size_t>(c.inputs[9].values[row]) + 1;
      double loss = std::log(sum) - At(c, 0, n, i, columns, target);
      if (g < 0) negatives.emplace_back(-loss, i);
      if (g < 0) continue;
      cls += loss;
      count += 1;
      Box a = DefaultBox(attrs, i), b = BoxAt(c.inputs[8].values, row);
      double aw = a.x2 - a.x1, ah = a.y2 - a.y1, bw = b.x2 - b.x1, bh = b.y2 - b.y1;
      const auto& weights = attrs.coder.weights;
      double t[] = {weights[0] * (b.x1 + bw / 2 - a.x1 - aw / 2) / aw,
                    weights[1] * (b.y1 + bh / 2 - a.y1 - ah / 2) / ah,
                    weights[2] * std::log(bw / aw), weights[3] * std::log(bh / ah)};
      for (size_t k = 0; k < 4; ++k) {
        double d = std::fabs(At(c, 3, n, i, 4, k) - t[k]);
        box += d < 1 ? d * d / 2 : d - 0.5;
      }
    }
    positives += count;
    std::sort(negatives.begin(), negatives.end());
    negatives.resize(std::min(negatives.size(), static_cast<size_t>(3 * count)));
    for (const auto& [loss, i] : negatives) cls -= loss;
  }
  CaseResult r = RunCase(*TestBackends()[0], DType::kF32, c);
  CHECK(r[0][0] == Approx(cls / std::max(positives, 1.0)).epsilon(1e-5).margin(1e-7));
  CHECK(r[0][1] == Approx(box / std::max(positives, 1.0)).epsilon(1e-5).margin(1e-7));
}

}  // namespace

TEST_CASE("SSD targets by a plain reference", "[detection]") {
  Random random(41);
  for (const std::vector<int>& counts : {std::vector<int>{6}, {0, 3}, {1, 6, 0, 2}}) {
    OpCase c = TargetCase(random, RandomAttrs(random), counts);
    CaseResult r = RunCase(*TestBackends()[0], DType::kF32, c);
    for (size_t n = 0; n < counts.size(); ++n) {
      std::vector<int> expected(kBoxes, -1);
      std::vector<float> best_of_box(kBoxes, 0.0f);
      std::vector<std::pair<float, size_t>> best_of_gt;
      for (int g = 0; g < counts[n]; ++g) {
        Box gt = BoxAt(c.inputs[0].values, n * 6 + static_cast<size_t>(g));
        best_of_gt.emplace_back(0.0f, 0);
        for (size_t i = 0; i < kBoxes; ++i) {
          float iou = kernels::Iou(DefaultBox(std::get<SsdAttrs>(c.attrs), i), gt);
          if (iou > best_of_gt.back().first) best_of_gt.back() = {iou, i};
          if (iou > best_of_box[i]) {
            best_of_box[i] = iou;
            expected[i] = iou >= 0.5f ? g : -1;
          }
        }
      }
      for (size_t g = 0; g < best_of_gt.size(); ++g) {
        expected[best_of_gt[g].second] = static_cast<int>(g);
      }
      for (size_t i = 0; i < kBoxes; ++i) CHECK(r[0][n * kBoxes + i] == expected[i]);
      CHECK(r[1][n] == kBoxes - std::count(expected.begin(), expected.end(), -1));
    }
    CompareBackends(c);
  }
}

TEST_CASE("SSD targets: boxes without area match nothing", "[detection]") {
  Random random(42);
  OpCase c = TargetCase(random, RandomAttrs(random), {2});
  std::fill_n(c.inputs[0].values.begin(), 4, 9);
  std::fill_n(c.inputs[0].values.begin() + 4, 4, std::nan(""));
  CHECK(RunCase(*TestBackends()[0], DType::kF32, c)[1][0] == 0);
  CompareBackends(c);
}

TEST_CASE("SSD loss by a plain reference and finite differences", "[detection]") {
  Random random(43);
  for (const std::vector<int>& counts : {std::vector<int>{2}, {0, 3}, {1, 6, 0, 2}}) {
    OpCase c = LossCase(random, RandomAttrs(random), counts, 1000, false);
    CheckLoss(c);
    // The regression is smooth; classification only where no negative changes places.
    for (size_t m = 3; m < 6; ++m) CheckGradient(c, m, m + 1, 10);
    CompareBackends(c);
  }
  OpCase all = LossCase(random, RandomAttrs(random), {6, 6}, 1000, true);
  auto& attrs = std::get<SsdAttrs>(all.attrs);
  attrs.negative_ratio = 100;  // every negative is taken: smooth
  for (size_t m = 0; m < 6; ++m) CheckGradient(all, m, m + 1, 10, 32);
  CompareBackends(all);
}

TEST_CASE("SSD loss: equal losses take the first boxes, no positives give zeros", "[detection]") {
  Random random(44);
  OpCase ties = LossCase(random, RandomAttrs(random), {2, 1}, 1, false);
  CheckLoss(ties);
  CompareBackends(ties);
  OpCase none = LossCase(random, RandomAttrs(random), {0, 0}, 1000, false);
  for (const std::vector<double>& out : RunCase(*TestBackends()[0], DType::kF32, none)) {
    CHECK(std::all_of(out.begin(), out.end(), [](double v) { return v == 0; }));
  }
  CompareBackends(none);
}

namespace {

OpCase DetectionCase(Random& random, const SsdAttrs& attrs, int64_t images, float digits) {
  OpCase c{OpType::kSsdDetections, attrs, Maps(random, attrs, images, digits), {}};
  int64_t d = attrs.max_detections;
  c.outputs = {{Kind::kF32, {images, d, 4}, {}},
               {Kind::kF32, {images, d}, {}},
               {Kind::kI32, {images, d}, {}},
               {Kind::kI32, {images}, {}}};
  std::vector<int> sizes;
  for (int i = 0; i < images; ++i) sizes.insert(sizes.end(), {61 - i, 83 + i});
  c.inputs.push_back(Given(Kind::kI32, {images, 2}, sizes));
  return c;
}

struct Found {
  Box box;
  float score;
  size_t number, label;
};

bool Before(const Found& a, const Found& b) {
  return a.score != b.score ? a.score > b.score : a.number < b.number;
}

std::vector<Found> PlainDetections(const OpCase& c, size_t n) {
  const auto& attrs = std::get<SsdAttrs>(c.attrs);
  size_t classes = static_cast<size_t>(attrs.num_classes);
  std::vector<std::vector<Found>> of_class(classes);
  for (size_t i = 0; i < kBoxes; ++i) {
    std::vector<float> p;
    float most = -HUGE_VALF, sum = 0;
    for (size_t k = 0; k <= classes; ++k) {
      p.push_back(static_cast<float>(At(c, 0, n, i, classes + 1, k)));
      most = std::max(most, p.back());
    }
    for (float& x : p) {
      x = kernels::PortableExp(x - most);
      sum += x;
    }
    auto f = [&](size_t k) { return static_cast<float>(At(c, 3, n, i, 4, k)); };
    Box b = kernels::Decode(DefaultBox(attrs, i), {f(0), f(1), f(2), f(3)},
                            {attrs.coder.weights[0], attrs.coder.weights[1], attrs.coder.weights[2],
                             attrs.coder.weights[3], attrs.coder.clip});
    b = kernels::Clip(b, static_cast<float>(c.inputs[6].values[n * 2]),
                      static_cast<float>(c.inputs[6].values[n * 2 + 1]));
    for (size_t k = 0; k < classes; ++k) {
      float score = p[k + 1] / sum;
      if (score > attrs.min_score) of_class[k].push_back({b, score, i * classes + k, k});
    }
  }
  std::vector<Found> kept;
  for (std::vector<Found>& list : of_class) {
    std::sort(list.begin(), list.end(), Before);
    list.resize(std::min(list.size(), static_cast<size_t>(attrs.candidates)));
    std::vector<Found> mine;
    for (const Found& x : list) {
      bool stays = std::none_of(mine.begin(), mine.end(), [&](const Found& k) {
        return kernels::Iou(k.box, x.box) > attrs.nms_iou;
      });
      if (stays) mine.push_back(x);
    }
    kept.insert(kept.end(), mine.begin(), mine.end());
  }
  std::sort(kept.begin(), kept.end(), Before);
  kept.resize(std::min(kept.size(), static_cast<size_t>(attrs.max_detections)));
  return kept;
}

}  // namespace

TEST_CASE("SSD detections by a plain reference", "[detection]") {
  Random random(45);
  for (int images = 1; images <= 4; ++images) {
    for (float digits : {1000.0f, 1.0f}) {
      SsdAttrs attrs = RandomAttrs(random);
      if (images == 2) attrs.min_score = 0;
      if (images == 3) attrs.max_detections = 300;
      OpCase c = DetectionCase(random, attrs, images, digits);
      CaseResult r = RunCase(*TestBackends()[0], DType::kF32, c);
      size_t capacity = static_cast<size_t>(attrs.max_detections);
      for (size_t n = 0; n < r[3].size(); ++n) {
        std::vector<Found> expected = PlainDetections(c, n);
        REQUIRE(r[3][n] == static_cast<double>(expected.size()));
        expected.resize(capacity, {Box{}, 0, 0, 0});
        for (size_t i = 0; i < capacity; ++i) {
          REQUIRE(Flatten({BoxAt(r[0], n * capacity + i)}) == Flatten({expected[i].box}));
          CHECK(r[1][n * capacity + i] == expected[i].score);
          CHECK(r[2][n * capacity + i] == static_cast<double>(expected[i].label));
        }
      }
      CompareBackends(c, {0, 1, 2, 3});
    }
  }
}

TEST_CASE("SSD detections of a diverged network: none are NaN", "[detection]") {
  Random random(46);
  OpCase c = DetectionCase(random, RandomAttrs(random), 2, 1000);
  for (size_t m = 0; m < 6; ++m) {
    std::vector<double>& v = c.inputs[m].values;
    for (size_t k = m; k < v.size(); k += 5) v[k] = std::nan("");
    for (size_t k = m + 2; k < v.size(); k += 13) v[k] = HUGE_VAL;
  }
  for (const std::vector<double>& out : RunCase(*TestBackends()[0], DType::kF32, c)) {
    CHECK(std::all_of(out.begin(), out.end(), [](double v) { return std::isfinite(v); }));
  }
  CompareBackends(c, {0, 1, 2, 3});
}

}  // namespace xp::graph
