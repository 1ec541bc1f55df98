// Has cuDNN a repeatable plan for every convolution of the models that people train? Asked without
// a device: cuDNN 9.11 and newer makes plans for a device that is described to it.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/passes.h"
#include "exp/models/classifier.h"
#include "exp/models/faster_rcnn.h"
#include "src/graph/cuda/conv_graph.h"
#include "src/graph/cuda/conv_variants.h"
#include "src/graph/cuda/plan_maker.h"

namespace xp::graph::cuda {
namespace {

// Null, after saying why, where cuDNN can't be asked.
std::shared_ptr<ConvTarget> H200() {
  static std::shared_ptr<ConvTarget> target = []() -> std::shared_ptr<ConvTarget> {
    try {
      return ConvTarget::OfDescription(
          ReadFile(std::string(EXP_SOURCE_DIR) + "/tests/cuda/devices/h200.json"));
    } catch (const Error& e) {
      std::printf("plan support is skipped: %s\n", e.what());
      return nullptr;
    }
  }();
  return target;
}

bool IsConvolution(OpType type) {
  switch (type) {
    case OpType::kConv2d:
    case OpType::kConv2dDgrad:
    case OpType::kConv2dWgrad:
    case OpType::kLinear:
    case OpType::kLinearDgrad:
    case OpType::kLinearWgrad:
      return true;
    default:
      return false;
  }
}

bool HasPlan(const ConvProblem& problem, std::string* why) {
  // The last ones first: without epilogue, which can't be compiled without a driver.
  std::vector<ConvVariant> variants = VariantsOf(problem);
  std::reverse(variants.begin(), variants.end());
  for (const ConvVariant& variant : variants) {
    auto graph = ConvGraph::Create(H200(), variant.problem, why);
    if (!graph) continue;
    for (const std::string& engine : graph->Engines()) {
      if (graph->Build(engine, why)) return true;
    }
  }
  return false;
}

using Problems = std::map<std::string, ConvProblem>;

Problems ProblemsOf(const models::Model& model, const models::BatchShape& shape, DType type,
                    bool tf32 = false) {
  Graph g(std::make_shared<ParamLayout>(), type);
  model.BuildTraining(g, shape);
  RunPasses(g, {});
  AppendBackward(g);
  Problems problems;
  for (const Op& op : g.ops()) {
    if (!IsConvolution(op.type)) continue;
    ConvProblem problem = ProblemOf(g, op, tf32, true);
    problems.emplace(problem.Key(), problem);
  }
  return problems;
}

void CheckAll(const Problems& problems, size_t at_least) {
  if (!H200()) return;
  CHECK(problems.size() >= at_least);
  for (const auto& [key, problem] : problems) {
    std::string why;
    INFO(key);
    bool has = HasPlan(problem, &why);
    INFO(why);
    CHECK(has);
  }
}

models::ClassifierOptions ResNext101() {
  models::ClassifierOptions options;
  options.backbone.depth = 101;
  options.backbone.groups = 32;
  options.backbone.width_per_group = 4;
  return options;
}

}  // namespace

TEST_CASE("every convolution of Faster R-CNN at 800x1344, batch 16, bf16 has a repeatable plan") {
  auto model = models::MakeFasterRcnn(models::TorchvisionFasterRcnn(50, 80));
  CheckAll(ProblemsOf(*model, {16, 800, 1344, 32}, DType::kBF16), 80);
}

TEST_CASE("every convolution of ResNet-50 at batch 256 has a repeatable plan in every precision") {
  auto model = models::MakeClassifier({});
  models::BatchShape shape{256, 224, 224, 0};
  CheckAll(ProblemsOf(*model, shape, DType::kBF16), 60);
  CheckAll(ProblemsOf(*model, shape, DType::kF16), 60);
  CheckAll(ProblemsOf(*model, shape, DType::kF32, true), 60);
  CheckAll(ProblemsOf(*model, shape, DType::kF32), 60);
}

TEST_CASE("every convolution of ResNeXt-101 32x4d at batch 128, bf16 has a repeatable plan") {
  auto model = models::MakeClassifier(ResNext101());
  CheckAll(ProblemsOf(*model, {128, 224, 224, 0}, DType::kBF16), 60);
}

TEST_CASE("SSD300's own kinds of convolution have repeatable plans") {
  if (!H200()) return;
  // n, h, w, c, k, kernel, stride, pad, dilation: VGG's, fc6 (dilated), fc7, extras, heads.
  struct Shape {
    int n, size, c, k, kernel, stride, pad, dilation;
  };
  const Shape shapes[] = {{128, 300, 3, 64, 3, 1, 1, 1},     {128, 300, 64, 64, 3, 1, 1, 1},
                          {128, 38, 512, 512, 3, 1, 1, 1},   {128, 19, 512, 1024, 3, 1, 6, 6},
                          {128, 19, 1024, 1024, 1, 1, 0, 1}, {128, 19, 256, 512, 3, 2, 1, 1},
                          {128, 5, 128, 256, 3, 1, 0, 1},    {128, 38, 512, 324, 3, 1, 1, 1},
                          {128, 3, 256, 16, 3, 1, 1, 1},     {128, 1, 256, 324, 3, 1, 1, 1}};
  Problems problems;
  for (const Shape& s : shapes) {
    for (ConvKind kind : {ConvKind::kForward, ConvKind::kDataGrad, ConvKind::kWeightGrad}) {
      ConvProblem p;
      p.kind = kind;
      p.type = DType::kBF16;
      p.n = s.n;
      p.h = p.w = s.size;
      p.c = s.c;
      p.k = s.k;
      p.r = p.s = s.kernel;
      p.stride = {s.stride, s.stride};
      p.pad = {s.pad, s.pad};
      p.dilation = {s.dilation, s.dilation};
      p.p = p.q = (s.size + 2 * s.pad - s.dilation * (s.kernel - 1) - 1) / s.stride + 1;
      p.bias = p.relu = kind == ConvKind::kForward;
      problems.emplace(p.Key(), p);
    }
  }
  CheckAll(problems, 30);
}

TEST_CASE("large maps in fp32 have more than the slowest engines") {
  if (!H200()) return;
  // ResNet-50's at batch 256, and those of a detector's finest level: without parts the only
  // engine that needs no workspace is 50 times slower than the others.
  ConvProblem resnet, detector;
  resnet.n = 256;
  resnet.h = resnet.w = resnet.p = resnet.q = 56;
  resnet.c = 256, resnet.k = 64;
  detector.n = 16;
  detector.h = detector.p = 200;
  detector.w = detector.q = 336;
  detector.c = detector.k = 256;
  for (ConvProblem p : {resnet, detector}) {
    p.kind = ConvKind::kDataGrad;
    std::map<std::string, int64_t> found;
    for (const PlanCandidate& c : MakePlans(H200(), p, "", 100, nullptr).candidates) {
      ++found[c.choice.substr(0, c.choice.find(':'))];
    }
    INFO(p.Key());
    CHECK(found["plain"] >= 1);
    CHECK(found["parts-plain"] > found["plain"]);
  }
}

TEST_CASE("plans made ahead by many threads are those that are made when needed") {
  if (!H200()) return;
  std::vector<PlanMaker::Request> requests;
  for (ConvKind kind : {ConvKind::kForward, ConvKind::kDataGrad, ConvKind::kWeightGrad}) {
    for (int64_t channels : {64, 128, 256}) {
      ConvProblem p;
      p.kind = kind;
      p.type = DType::kBF16;
      p.n = 16;
      p.h = p.w = p.p = p.q = 28;
      p.c = p.k = channels;
      p.r = p.s = 3;
      p.pad = {1, 1};
      requests.push_back({p, ""});
    }
  }
  const size_t engines = 4;
  PlanMaker maker(H200(), engines, nullptr);
  maker.Start(requests);
  // In another order than announced, twice, and one that wasn't announced.
  std::reverse(requests.begin(), requests.end());
  requests.push_back(requests.front());
  requests.push_back(requests.front());
  requests.back().problem.n = 3;
  for (const PlanMaker::Request& request : requests) {
    INFO(request.problem.Key());
    MadePlans ahead = maker.Take(request);
    MadePlans alone = MakePlans(H200(), request.problem, "", engines, nullptr);
    REQUIRE(!ahead.candidates.empty());
    REQUIRE(ahead.candidates.size() == alone.candidates.size());
    for (size_t i = 0; i < ahead.candidates.size(); ++i) {
      CHECK(ahead.candidates[i].choice == alone.candidates[i].choice);
      CHECK(ahead.candidates[i].plan->workspace_bytes() ==
            alone.candidates[i].plan->workspace_bytes());
    }
    MadePlans named = maker.Take({request.problem, ahead.candidates.back().choice});
    REQUIRE(named.candidates.size() == 1);
  }
}

TEST_CASE("an engine is found again by its name alone") {
  if (!H200()) return;
  ConvProblem p;
  p.type = DType::kBF16;
  p.n = 16;
  p.h = p.w = p.p = p.q = 56;
  p.c = p.k = 64;
  p.r = p.s = 3;
  p.pad = {1, 1};
  std::string why;
  auto graph = ConvGraph::Create(H200(), p, &why);
  REQUIRE(graph);
  std::vector<std::string> engines = graph->Engines();
  REQUIRE(engines.size() > 5);
  for (const std::string& engine : engines) {
    INFO(engine);
    CHECK(
        MakePlans(H200(), p, VariantsOf(p)[0].name + ":" + engine, 1, nullptr).candidates.size() ==
        1);
    // The list can still be asked for after one name, and another name after the list.
    auto again = ConvGraph::Create(H200(), p, &why);
    REQUIRE(again->Propose(engine, &why));
    CHECK(again->Build(engine, &why));
    CHECK(again->Engines() == engines);
    CHECK(again->Build(engine, &why));
    REQUIRE(again->Propose(engine, &why));
    CHECK(again->Build(engine, &why));
  }
  bool made = graph->Propose("eng45_k2=99999", &why) && graph->Build("eng45_k2=99999", &why);
  CHECK_FALSE(made);
  CHECK_FALSE(graph->Propose("nonsense", &why));
  CHECK_FALSE(graph->Build("nonsense", &why));
}

}  // namespace xp::graph::cuda
