// Region proposal network: targets, loss and proposals against plain references written here, and
// the CUDA kernels against the CPU.
#include <algorithm>
#include <numeric>

#include "catch.h"
#include "graph/detection_support.h"
#include "kernels/sampling.h"

namespace xp::graph {

namespace {

using kernels::Box;

double PlainIou(const Box& a, const Box& b) {
  double w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  double h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (w <= 0 || h <= 0) return 0;
  double inter = w * h;
  return inter / ((a.x2 - a.x1) * (a.y2 - a.y1) + (b.x2 - b.x1) * (b.y2 - b.y1) - inter);
}

// Label of each anchor: ground truth, -1 background, -2 ignored. By the whole matrix.
std::vector<int> PlainMatch(const std::vector<Box>& anchors, const std::vector<Box>& gt,
                            const Matcher& m) {
  std::vector<std::vector<double>> iou(gt.size(), std::vector<double>(anchors.size()));
  std::vector<double> best_of_gt(gt.size());
  for (size_t g = 0; g < gt.size(); ++g) {
    for (size_t a = 0; a < anchors.size(); ++a) iou[g][a] = PlainIou(gt[g], anchors[a]);
    best_of_gt[g] = *std::max_element(iou[g].begin(), iou[g].end());
  }
  std::vector<int> out(anchors.size(), -1);
  for (size_t a = 0; a < anchors.size(); ++a) {
    double best = 0;
    int which = 0;
    for (size_t g = 0; g < gt.size(); ++g) {
      if (iou[g][a] > best + 1e-7) {
        best = iou[g][a];
        which = static_cast<int>(g);
      }
    }
    out[a] = best >= m.positive ? which : (best < m.negative ? -1 : -2);
    for (size_t g = 0; m.low_quality && g < gt.size(); ++g) {
      bool is_best = best_of_gt[g] > 0 && iou[g][a] > best_of_gt[g] - 1e-7;
      if (!is_best || best_of_gt[g] < m.low_quality_min) continue;
      out[a] = m.low_quality_to_best ? static_cast<int>(g) : which;
    }
  }
  return out;
}

OpCase TargetCase(const RpnTargetAttrs& attrs, const CaseTensor& gt, const std::vector<int>& counts,
                  uint32_t step) {
  int64_t n = static_cast<int64_t>(counts.size()), s = attrs.samples;
  return {OpType::kRpnTargets,
          attrs,
          {gt, Counts(counts), StepKey(5, step)},
          {{Kind::kI32, {n, s}, {}}, {Kind::kF32, {n, s, 4}, {}}, {Kind::kI32, {n, 2}, {}}}};
}

std::vector<int> KeptOf(const std::vector<int>& matched, bool positive, int image, uint32_t step,
                        int wanted) {
  std::vector<std::pair<uint32_t, int>> keys;
  kernels::StepKey key{5 + ((uint64_t{5} * 7919) << 32), step, 0};
  for (size_t i = 0; i < matched.size(); ++i) {
    if (positive ? matched[i] < 0 : matched[i] != -1) continue;
    keys.emplace_back(kernels::SampleKey(key, RandomPurpose::kRpnSample,
                                         static_cast<uint32_t>(image), static_cast<uint32_t>(i)),
                      static_cast<int>(i));
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int> out;
  for (size_t i = 0; i < keys.size() && static_cast<int>(i) < wanted; ++i) {
    out.push_back(keys[i].second);
  }
  std::sort(out.begin(), out.end());
  return out;
}

void CheckTargets(const OpCase& c, const std::vector<int>& gt_counts, uint32_t step) {
  const auto& attrs = std::get<RpnTargetAttrs>(c.attrs);
  std::vector<Box> anchors = AllAnchors(attrs.levels);
  size_t samples = static_cast<size_t>(attrs.samples);
  size_t capacity = static_cast<size_t>(c.inputs[0].shape[1]);
  CaseResult r = RunCase(*TestBackends()[0], DType::kF32, c);
  for (size_t n = 0; n < gt_counts.size(); ++n) {
    std::vector<Box> gt;
    for (size_t g = 0; g < static_cast<size_t>(gt_counts[n]); ++g) {
      gt.push_back(BoxAt(c.inputs[0].values, n * capacity + g));
    }
    std::vector<int> matched = PlainMatch(anchors, gt, attrs.matcher);
    int image = static_cast<int>(n);
    std::vector<int> positives =
        KeptOf(matched, true, image, step,
               static_cast<int>(static_cast<float>(attrs.samples) * attrs.positive_fraction));
    std::vector<int> negatives =
        KeptOf(matched, false, image, step, attrs.samples - static_cast<int>(positives.size()));
    CHECK(r[2][2 * n] == static_cast<double>(positives.size()));
    CHECK(r[2][2 * n + 1] == static_cast<double>(negatives.size()));
    std::vector<int> expected = positives;
    expected.insert(expected.end(), negatives.begin(), negatives.end());
    expected.resize(samples, -1);
    std::vector<int> got(r[0].begin() + static_cast<long>(n * samples),
                         r[0].begin() + static_cast<long>((n + 1) * samples));
    CHECK(got == expected);
    for (size_t i = 0; i < samples; ++i) {
      double t[4] = {0, 0, 0, 0};
      if (i < positives.size()) {
        const Box& a = anchors[static_cast<size_t>(positives[i])];
        const Box& b = gt[static_cast<size_t>(matched[static_cast<size_t>(positives[i])])];
        double aw = a.x2 - a.x1, ah = a.y2 - a.y1, bw = b.x2 - b.x1, bh = b.y2 - b.y1;
        const auto& w = attrs.coder.weights;
        t[0] = w[0] * (b.x1 + bw / 2 - a.x1 - aw / 2) / aw;
        t[1] = w[1] * (b.y1 + bh / 2 - a.y1 - ah / 2) / ah;
        t[2] = w[2] * std::log(bw / aw);
        t[3] = w[3] * std::log(bh / ah);
      }
      for (size_t k = 0; k < 4; ++k) {
        CHECK(r[1][(n * samples + i) * 4 + k] == Approx(t[k]).margin(1e-5));
      }
    }
  }
  CompareBackends(c, {0, 1, 2});
}

}  // namespace

TEST_CASE("RPN targets: labels, sampling and encoding by a plain reference", "[detection]") {
  Random random(1);
  for (int images = 1; images <= 4; ++images) {
    std::vector<int> counts;
    for (int n = 0; n < images; ++n) counts.push_back(random.Below(9));
    CaseTensor gt = RandomBoxes(random, counts, 9, 61, 83);
    for (const Matcher& matcher :
         {Matcher{}, Matcher{0.7f, 0.3f, true, 0.3f, true}, Matcher{0.5f, 0.4f, false, 0, false}}) {
      RpnTargetAttrs attrs{.levels = OddLevels(), .matcher = matcher, .samples = 32};
      CheckTargets(TargetCase(attrs, gt, counts, 3), counts, 3);
      attrs.coder.weights = {2, 4, 5, 8};
      CheckTargets(TargetCase(attrs, gt, counts, 3), counts, 3);
    }
  }
}

TEST_CASE("RPN targets: fewer anchors than samples, many positives", "[detection]") {
  Random random(2);
  std::vector<AnchorLevel> levels{{2, 3, 8, 8, {-8, -8, 8, 8}}};
  std::vector<int> counts{5, 1};
  CaseTensor gt = RandomBoxes(random, counts, 5, 16, 24);
  RpnTargetAttrs attrs{.levels = levels, .matcher = {0.1f, 0.1f, true, 0, false}, .samples = 20};
  CheckTargets(TargetCase(attrs, gt, counts, 0), counts, 0);
  attrs.samples = 4;  // more positives than may be sampled
  CheckTargets(TargetCase(attrs, gt, counts, 1), counts, 1);
}

TEST_CASE("RPN targets: another step draws others, the same step the same", "[detection]") {
  Random random(3);
  CaseTensor gt = RandomBoxes(random, {3}, 3, 61, 83);
  RpnTargetAttrs attrs{.levels = OddLevels(), .samples = 16};
  Backend& cpu = *TestBackends()[0];
  CaseResult a = RunCase(cpu, DType::kF32, TargetCase(attrs, gt, {3}, 1));
  CaseResult b = RunCase(cpu, DType::kF32, TargetCase(attrs, gt, {3}, 2));
  CHECK(a[0] != b[0]);
  std::unique_ptr<Backend> alone = CreateCpuBackend(1);
  CHECK(RunCase(*alone, DType::kF32, TargetCase(attrs, gt, {3}, 1)) == a);
}

TEST_CASE("RPN targets: images without boxes and boxes without area", "[detection]") {
  std::vector<float> gt(3 * 2 * 4, 0.0f);
  const float flat[] = {10, 10, 10, 30, 5, 5, 40, 5};
  std::copy_n(flat, 8, gt.begin() + 8);
  std::fill_n(gt.begin() + 16, 8, std::nanf(""));
  RpnTargetAttrs attrs{.levels = OddLevels(), .samples = 16};
  for (const std::vector<int>& counts : {std::vector<int>{0, 0, 0}, {0, 2, 2}}) {
    OpCase c = TargetCase(attrs, Given(Kind::kF32, {3, 2, 4}, gt), counts, 0);
    CaseResult r = RunCase(*TestBackends()[0], DType::kF32, c);
    CHECK(r[2] == std::vector<double>{0, 16, 0, 16, 0, 16});
    CHECK(std::all_of(r[1].begin(), r[1].end(), [](double v) { return v == 0; }));
    CompareBackends(c, {0, 1, 2});
  }
}

namespace {

OpCase LossCase(Random& random, const std::vector<int>& counts, int samples, float beta,
                bool scaled) {
  std::vector<AnchorLevel> levels = OddLevels();
  int64_t n = static_cast<int64_t>(counts.size()) / 2;
  OpCase c{
      OpType::kRpnLoss, RpnLossAttrs{.levels = levels, .beta = beta}, {}, {{Kind::kF32, {2}, {}}}};
  for (int width : {1, 4}) {
    for (const AnchorLevel& l : levels) {
      Shape shape{n, l.height, l.width, l.per_cell() * width};
      c.inputs.push_back(Given(Kind::kCompute, shape, random.Normals(NumElements(shape), 2)));
      c.outputs.push_back({Kind::kCompute, shape, {}});
    }
  }
  std::vector<int> sampled(static_cast<size_t>(n * samples), -1);
  std::vector<int> all(static_cast<size_t>(levels[0].count() + levels[1].count()));
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    std::iota(all.begin(), all.end(), 0);
    for (int k = 0; k < counts[2 * i] + counts[2 * i + 1]; ++k) {
      size_t at = static_cast<size_t>(random.Below(static_cast<int>(all.size())));
      sampled[i * static_cast<size_t>(samples) + static_cast<size_t>(k)] = all[at];
      all.erase(all.begin() + static_cast<long>(at));
    }
  }
  c.inputs.push_back(Given(Kind::kI32, {n, samples}, sampled));
  c.inputs.push_back(Given(Kind::kF32, {n, samples, 4}, random.Normals(n * samples * 4, 1)));
  c.inputs.push_back(Given(Kind::kI32, {n, 2}, counts));
  if (scaled) c.inputs.push_back(Given<float>(Kind::kF32, {1}, {64}));
  return c;
}

}  // namespace

TEST_CASE("RPN loss: gradients by finite differences, on every backend alike", "[detection]") {
  Random random(4);
  for (float beta : {1.0f / 9, 0.0f}) {
    OpCase c = LossCase(random, {3, 9, 0, 5, 12, 0}, 12, beta, false);
    CheckGradient(c, 0, 1, 40);
    CheckGradient(c, 1, 2, 20);
    CheckGradient(c, 2, 3, 40);
    CheckGradient(c, 3, 4, 20);
    CompareBackends(c);
  }
  OpCase scaled = LossCase(random, {4, 8}, 12, 1.0f / 9, true);
  CheckGradient(scaled, 0, 1, 20, 64);
  CompareBackends(scaled);
}

TEST_CASE("RPN loss: nothing sampled gives zeros", "[detection]") {
  Random random(5);
  OpCase c = LossCase(random, {0, 0, 0, 0}, 12, 1.0f / 9, false);
  for (const std::vector<double>& out : RunCase(*TestBackends()[0], DType::kF32, c)) {
    CHECK(std::all_of(out.begin(), out.end(), [](double v) { return v == 0; }));
  }
  CompareBackends(c);
}

TEST_CASE("RPN loss: extreme logits stay finite", "[detection]") {
  Random random(6);
  OpCase c = LossCase(random, {6, 6}, 12, 1.0f / 9, false);
  for (size_t i = 0; i < c.inputs[0].values.size(); ++i) {
    c.inputs[0].values[i] = i % 2 == 0 ? 200 : -200;
  }
  CaseResult r = RunCase(*TestBackends()[0], DType::kF32, c);
  CHECK(std::isfinite(r[0][0]));
  CompareBackends(c);
}

namespace {

OpCase ProposalCase(Random& random, int images, RpnProposalAttrs attrs, float digits) {
  int64_t n = images, p = attrs.post_nms;
  OpCase c{OpType::kRpnProposals,
           attrs,
           {},
           {{Kind::kF32, {n, p, 4}, {}}, {Kind::kF32, {n, p}, {}}, {Kind::kI32, {n}, {}}}};
  for (int width : {1, 4}) {
    for (const AnchorLevel& l : attrs.levels) {
      Shape shape{n, l.height, l.width, l.per_cell() * width};
      std::vector<float> v = random.Normals(NumElements(shape), width == 1 ? 2.0f : 0.5f);
      for (float& x : v) x = width == 1 ? std::nearbyint(x * digits) / digits : x;
      c.inputs.push_back(Given(Kind::kCompute, shape, v));
    }
  }
  std::vector<int> sizes;
  for (int i = 0; i < images; ++i) sizes.insert(sizes.end(), {61 - 7 * i, 83 - 5 * i});
  c.inputs.push_back(Given(Kind::kI32, {n, 2}, sizes));
  return c;
}

struct Candidate {
  double logit;
  int number, level;
  Box box;
};

// Sorting everything and trying every pair.
std::vector<Candidate> PlainProposals(const OpCase& c, size_t image) {
  const auto& attrs = std::get<RpnProposalAttrs>(c.attrs);
  std::vector<Candidate> kept;
  int first = 0;
  for (size_t l = 0; l < attrs.levels.size(); ++l) {
    std::vector<Box> anchors = AllAnchors({attrs.levels[l]});
    std::vector<Candidate> all;
    for (size_t a = 0; a < anchors.size(); ++a) {
      const double* d = &c.inputs[attrs.levels.size() + l].values[(image * anchors.size() + a) * 4];
      auto f = [&](int i) { return static_cast<float>(d[i]); };
      const auto& w = attrs.coder.weights;
      Box b = kernels::Decode(anchors[a], {f(0), f(1), f(2), f(3)},
                              {w[0], w[1], w[2], w[3], attrs.coder.clip});
      const double* size = &c.inputs.back().values[image * 2];
      b = kernels::Clip(b, static_cast<float>(size[0]), static_cast<float>(size[1]));
      all.push_back({c.inputs[l].values[image * anchors.size() + a], first + static_cast<int>(a),
                     static_cast<int>(l), b});
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
    all.resize(std::min(all.size(), static_cast<size_t>(attrs.pre_nms)));
    for (const Candidate& x : all) {
      bool stays = x.box.x2 - x.box.x1 >= attrs.min_size && x.box.y2 - x.box.y1 >= attrs.min_size &&
                   1 / (1 + std::exp(-x.logit)) >= attrs.min_score;
      for (const Candidate& k : kept) {
        if (k.level == x.level && PlainIou(k.box, x.box) > attrs.nms_iou) stays = false;
      }
      if (stays) kept.push_back(x);
    }
    first += static_cast<int>(anchors.size());
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  kept.resize(std::min(kept.size(), static_cast<size_t>(attrs.post_nms)));
  return kept;
}

void CheckProposals(const OpCase& c) {
  const auto& attrs = std::get<RpnProposalAttrs>(c.attrs);
  size_t capacity = static_cast<size_t>(attrs.post_nms);
  CaseResult r = RunCase(*TestBackends()[0], DType::kF32, c);
  for (size_t n = 0; n < r[2].size(); ++n) {
    std::vector<Candidate> expected = PlainProposals(c, n);
    REQUIRE(r[2][n] == static_cast<double>(expected.size()));
    for (size_t i = 0; i < capacity; ++i) {
      Box got = BoxAt(r[0], n * capacity + i), want{};
      double score = 0;
      if (i < expected.size()) {
        want = expected[i].box;
        score = 1 / (1 + std::exp(-expected[i].logit));
      }
      REQUIRE(Flatten({got}) == Flatten({want}));
      CHECK(r[1][n * capacity + i] == Approx(score).margin(1e-6));
    }
  }
}

}  // namespace

TEST_CASE("proposals by a plain reference, with ties, small boxes and limits", "[detection]") {
  Random random(7);
  for (int images = 1; images <= 4; ++images) {
    for (float digits : {1000.0f, 2.0f}) {
      for (int pre_nms : {40, 5000}) {
        RpnProposalAttrs attrs{.levels = OddLevels(), .pre_nms = pre_nms, .post_nms = 50};
        attrs.min_size = 5;
        attrs.nms_iou = pre_nms == 40 ? 0.7f : 0.25f;  // few and many are suppressed
        if (digits == 2) attrs.coder.weights = {2, 4, 5, 8};
        OpCase c = ProposalCase(random, images, attrs, digits);
        CheckProposals(c);
        CompareBackends(c, {0, 1, 2});
      }
    }
  }
}

TEST_CASE("proposals: a score limit, room for more than there are", "[detection]") {
  Random random(8);
  RpnProposalAttrs attrs{.levels = OddLevels(), .pre_nms = 300, .post_nms = 900};
  attrs.min_score = 0.6f;
  attrs.nms_iou = 0.3f;
  OpCase c = ProposalCase(random, 2, attrs, 1000);
  CheckProposals(c);
  CompareBackends(c, {0, 1, 2});
}

TEST_CASE("proposals of a diverged network: none are NaN", "[detection]") {
  Random random(9);
  RpnProposalAttrs attrs{.levels = OddLevels(), .pre_nms = 300, .post_nms = 100};
  OpCase c = ProposalCase(random, 2, attrs, 1000);
  for (size_t i = 0; i < 4; ++i) {
    for (size_t k = i; k < c.inputs[i].values.size(); k += 3) c.inputs[i].values[k] = std::nan("");
    for (size_t k = i; k < c.inputs[i].values.size(); k += 7) c.inputs[i].values[k] = HUGE_VAL;
    for (size_t k = i; k < c.inputs[i].values.size(); k += 11) c.inputs[i].values[k] = -HUGE_VAL;
  }
  CaseResult r = RunCase(*TestBackends()[0], DType::kF32, c);
  for (const std::vector<double>& out : r) {
    CHECK(std::all_of(out.begin(), out.end(), [](double v) { return std::isfinite(v); }));
  }
  CompareBackends(c, {0, 1, 2});
  for (size_t i = 0; i < 2; ++i) {  // nothing but NaN: no proposals
    std::fill(c.inputs[i].values.begin(), c.inputs[i].values.end(), std::nan(""));
  }
  CHECK(RunCase(*TestBackends()[0], DType::kF32, c)[2] == std::vector<double>{0, 0});
  CompareBackends(c, {0, 1, 2});
}

}  // namespace xp::graph
