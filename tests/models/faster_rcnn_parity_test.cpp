// The whole Faster R-CNN against torchvision's, from the same weights, images and targets
// (tests/fixtures/frcnn_small.safetensors: results in float64). torchvision's choice of samples is
// fed in, since random numbers differ. Tolerances: relative L2 error 2e-4 in fp32.
#include <cmath>
#include <cstring>
#include <map>

#include "catch.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/passes.h"
#include "exp/graph/program.h"
#include "exp/models/faster_rcnn.h"
#include "exp/train/flat_state.h"
#include "exp/train/update.h"
#include "graph/fixture.h"
#include "graph/run_graph.h"
#include "models/full_width.h"

using namespace xp;
using namespace xp::graph;

namespace {

constexpr int kImages = 2;

models::FasterRcnnOptions TinyOptions(bool seresnext) {
  models::FasterRcnnOptions o = models::TorchvisionFasterRcnn(seresnext ? 50 : 18, 3);
  o.backbone.base_channels = seresnext ? 4 : 8;
  if (seresnext) {
    o.backbone.groups = 2;
    o.backbone.width_per_group = 32;
    o.backbone.squeeze_excite = true;
  }
  o.backbone.blocks = {1, 1, 1, 1};
  o.neck_channels = 32;
  o.fc_channels = 64;
  o.anchor_sizes = {{8}, {16}, {32}, {64}, {128}};
  o.rpn_targets.samples = 64;
  o.roi_targets.samples = 64;
  o.train_proposals.pre_nms = 200;
  o.train_proposals.post_nms = 100;
  o.test_proposals.pre_nms = 100;
  o.test_proposals.post_nms = 50;
  o.detections.max_detections = 30;
  return o;
}

// A fixture, and what in it was compared: of the second, whose body is an SE-ResNeXt with timm's
// blocks, only the deeper levels of the pyramid.
struct Case {
  std::string file;
  models::FasterRcnnOptions options;
  int first_level = 0, gradients = 0;
  models::BatchShape shape{kImages, 96, 128, 4};
};

Case SmallCase(int number) {
  return number == 0 ? Case{"frcnn_small.safetensors", TinyOptions(false), 0, 14}
                     : Case{"frcnn_seresnext.safetensors", TinyOptions(true), 2, 10};
}

double RelativeError(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    difference +=
        (static_cast<double>(got[i]) - expected[i]) * (static_cast<double>(got[i]) - expected[i]);
    norm += static_cast<double>(expected[i]) * expected[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

// The op of that type goes; what it would have written is fed by the test.
void FeedInstead(Graph& g, OpType type) {
  std::vector<Op> kept;
  for (Op& op : g.ops()) {
    if (op.type != type) {
      kept.push_back(std::move(op));
      continue;
    }
    for (TensorId id : op.outputs) g.tensor(id).storage = Storage::kInput;
  }
  g.ops() = std::move(kept);
}

// A temporary that the test wants to see.
void Watch(Graph& g, const std::string& name) {
  for (size_t i = 0; i < g.tensors().size(); ++i) {
    Tensor& t = g.tensor(static_cast<TensorId>(i));
    if (t.name == name && t.storage == Storage::kTemp) t.storage = Storage::kOutput;
  }
}

struct Run {
  explicit Run(const Case& c) : model(models::MakeFasterRcnn(c.options)) {}

  std::unique_ptr<models::Model> model;
  std::unique_ptr<ParamBuffers> params;
  std::unique_ptr<Program> program;

  std::vector<float> Floats(const std::string& name) {
    TensorId id = program->graph().Find(name, Storage::kOutput);
    REQUIRE(id != kNoTensor);
    std::vector<float> values(static_cast<size_t>(program->graph().tensor(id).elements()));
    program->Read(id, values.data(), values.size() * 4);
    return values;
  }
  template <typename T>
  void Set(const std::string& name, std::vector<T> values) {
    TensorId id = program->graph().Find(name, Storage::kInput);
    REQUIRE(id != kNoTensor);
    values.resize(program->graph().tensor(id).bytes() / sizeof(T));
    program->SetInput(id, values.data(), values.size() * sizeof(T));
  }
};

train::FlatState LoadState(const Fixture& f, const ParamLayout& layout) {
  train::FlatState state;
  state.params.resize(static_cast<size_t>(layout.param_elements()));
  state.states.resize(static_cast<size_t>(layout.state_elements()));
  auto load = [&](const std::string& name) {
    train::NamedTensor t{name, f.shape("model." + name), f.Floats("model." + name)};
    REQUIRE(train::ImportTensor(layout, t, {}, "fixture", &state));
  };
  for (const Param& p : layout.params()) load(p.name);
  for (const StateVar& s : layout.states()) load(s.name);
  return state;
}

void SetImages(const Fixture& f, const Case& c, Run& run) {
  const int64_t height = c.shape.height, width = c.shape.width;
  std::vector<uint8_t> images(static_cast<size_t>(kImages * height * width * 3), 0);
  std::vector<int32_t> sizes;
  for (int i = 0; i < kImages; ++i) {
    std::string name = "input.image" + std::to_string(i);
    Shape s = f.shape(name);
    std::vector<uint8_t> chw = f.Bytes(name);
    for (int64_t k = 0; k < 3; ++k) {
      for (int64_t y = 0; y < s[1]; ++y) {
        for (int64_t x = 0; x < s[2]; ++x) {
          images[static_cast<size_t>(((i * height + y) * width + x) * 3 + k)] =
              chw[static_cast<size_t>((k * s[1] + y) * s[2] + x)];
        }
      }
    }
    sizes.insert(sizes.end(), {static_cast<int32_t>(s[1]), static_cast<int32_t>(s[2])});
  }
  run.Set("images", images);
  run.Set("sizes", sizes);
}

// torchvision's encoding: (dx, dy, dw, dh) of `g` against `a`, times the weights.
std::array<float, 4> Encode(const float* g, const float* a) {
  double aw = a[2] - a[0], ah = a[3] - a[1], gw = g[2] - g[0], gh = g[3] - g[1];
  return {static_cast<float>((g[0] + 0.5 * gw - a[0] - 0.5 * aw) / aw),
          static_cast<float>((g[1] + 0.5 * gh - a[1] - 0.5 * ah) / ah),
          static_cast<float>(std::log(gw / aw)), static_cast<float>(std::log(gh / ah))};
}

void SetRpnTargets(const Fixture& f, int samples, Run& run) {
  std::vector<int32_t> sampled, counts;
  std::vector<float> targets;
  std::vector<float> anchors = f.Floats("train.anchors");
  for (int i = 0; i < kImages; ++i) {
    std::string n = std::to_string(i);
    std::vector<int32_t> positives = f.Ints("train.rpn.positives" + n),
                         negatives = f.Ints("train.rpn.negatives" + n);
    std::vector<float> gt = f.Floats("train.rpn.gt_of_anchor" + n);
    for (int32_t a : positives) {
      sampled.push_back(a);
      for (float v : Encode(&gt[static_cast<size_t>(4 * a)], &anchors[static_cast<size_t>(4 * a)]))
        targets.push_back(v);
    }
    sampled.insert(sampled.end(), negatives.begin(), negatives.end());
    sampled.resize(static_cast<size_t>(samples * (i + 1)), -1);
    targets.resize(static_cast<size_t>(4 * samples * (i + 1)), 0);
    counts.insert(counts.end(),
                  {static_cast<int32_t>(positives.size()), static_cast<int32_t>(negatives.size())});
  }
  run.Set("rpn.sampled", sampled);
  run.Set("rpn.targets", targets);
  run.Set("rpn.counts", counts);
}

void SetRoiTargets(const Fixture& f, Run& run) {
  std::vector<float> rois, targets;
  std::vector<int32_t> labels, counts;
  for (int i = 0; i < kImages; ++i) {
    std::string n = std::to_string(i);
    std::vector<float> boxes = f.Floats("train.roi.rois" + n),
                       encoded = f.Floats("train.roi.targets" + n);
    std::vector<int32_t> all = f.Ints("train.roi.labels" + n),
                         chosen = f.Ints("train.roi.sampled" + n);
    int32_t positives = 0;
    for (bool positive : {true, false}) {
      for (size_t k = 0; k < chosen.size(); ++k) {
        int32_t label = all[static_cast<size_t>(chosen[k])];
        if ((label > 0) != positive) continue;
        positives += positive ? 1 : 0;
        labels.push_back(label);
        rois.insert(rois.end(), &boxes[4 * k], &boxes[4 * k] + 4);
        for (size_t d = 0; d < 4; ++d) targets.push_back(positive ? encoded[4 * k + d] : 0);
      }
    }
    counts.insert(counts.end(), {positives, static_cast<int32_t>(chosen.size()) - positives});
  }
  run.Set("roi.boxes", rois);
  run.Set("roi.labels", labels);
  run.Set("roi.targets", targets);
  run.Set("roi.counts", counts);
}

Run TrainingRun(Backend& backend, const Fixture& f, const Case& c) {
  Run run(c);
  auto layout = std::make_shared<ParamLayout>();
  Graph g(layout);
  run.model->BuildTraining(g, c.shape);
  FeedInstead(g, OpType::kRpnTargets);
  FeedInstead(g, OpType::kRoiTargets);
  RunPasses(g, {});
  AppendBackward(g);
  train::OptimizerOptions sgd;
  sgd.lr = 0.02;
  train::AppendUpdate(g, sgd);
  Watch(g, "proposals");
  for (int level = 0; level < 4; ++level)
    Watch(g, "backbone.fpn.layer_blocks." + std::to_string(level) + ".0");
  run.params = std::make_unique<ParamBuffers>(backend, layout, DType::kF32, true, 1, false);
  train::FlatState state = LoadState(f, *layout);
  run.params->Write(Storage::kState, state.states);
  run.params->Write(Storage::kParam, state.params);
  run.program = std::make_unique<Program>(backend, std::move(g), *run.params);
  SetImages(f, c, run);
  SetRpnTargets(f, c.options.rpn_targets.samples, run);
  SetRoiTargets(f, run);
  run.Set("lr", std::vector<float>{0.02f});
  return run;
}

std::vector<float> Gradient(const std::vector<float>& all, const Param& p) {
  std::vector<float> file(static_cast<size_t>(p.elements()));
  ToFileOrder(p, all.data() + p.offset, file.data());
  return file;
}

std::vector<float> Part(const std::vector<float>& all, size_t begin, size_t count) {
  return {all.begin() + static_cast<int64_t>(begin),
          all.begin() + static_cast<int64_t>(begin + count)};
}

}  // namespace

TEST_CASE("Faster R-CNN's training pass is torchvision's: features, proposals, losses, gradients") {
  const Case c = SmallCase(GENERATE(0, 1));
  Fixture f(c.file);
  for (Backend* backend : TestBackends()) {
    INFO(backend->name() << ", " << c.file);
    Run run = TrainingRun(*backend, f, c);
    run.program->Run(false);
    for (int level = c.first_level; level < 4; ++level) {
      std::string n = std::to_string(level);
      CHECK(RelativeError(run.Floats("backbone.fpn.layer_blocks." + n + ".0"),
                          f.Nhwc("train.feature." + n)) < 2e-5);
    }
    std::vector<float> proposals = run.Floats("proposals");
    for (size_t i = 0; i < kImages; ++i) {
      CHECK(RelativeError(Part(proposals, 400 * i, 400),
                          f.Floats("train.rpn.proposals" + std::to_string(i))) < 2e-5);
    }
    std::vector<float> rpn = run.Floats("rpn_losses"), roi = run.Floats("roi_losses");
    CHECK(rpn[0] == Approx(f.Scalar("train.loss_objectness")).epsilon(2e-5));
    CHECK(rpn[1] == Approx(f.Scalar("train.loss_rpn_box_reg")).epsilon(2e-5));
    CHECK(roi[0] == Approx(f.Scalar("train.loss_classifier")).epsilon(2e-5));
    CHECK(roi[1] == Approx(f.Scalar("train.loss_box_reg")).epsilon(2e-5));
    int compared = 0;
    const std::vector<float> gradients = run.params->Read(Storage::kGrad);
    for (const Param& p : run.params->layout().params()) {
      if (!f.Has("train.grad." + p.name)) continue;
      INFO(p.name);
      CHECK(RelativeError(Gradient(gradients, p), f.Floats("train.grad." + p.name)) < 2e-4);
      ++compared;
    }
    CHECK(compared == c.gradients);
    // Running statistics after the pass.
    std::vector<float> states = run.params->Read(Storage::kState);
    const ParamLayout& layout = run.params->layout();
    for (std::string name : {"bn1.running_mean", "bn1.running_var", "layer4.0.bn2.running_var"}) {
      const StateVar& s =
          layout.states()[static_cast<size_t>(layout.FindState("backbone.body." + name))];
      std::vector<float> got =
          Part(states, static_cast<size_t>(s.offset), static_cast<size_t>(NumElements(s.shape)));
      CHECK(RelativeError(got, f.Floats("train.after." + name)) < 2e-5);
    }
  }
}

TEST_CASE("Faster R-CNN's losses and gradients are torchvision's at full width", "[.full]") {
  const bool frozen = GENERATE(false, true);
  Case c{FullFixture(frozen ? "frcnn_full_frozen.safetensors" : "frcnn_full.safetensors"),
         models::TorchvisionFasterRcnn(50, 90)};
  c.shape = {kImages, 320, 416, 5};
  if (frozen) c.options.backbone.norm = NormMode::kFrozen;
  Fixture f(c.file);
  for (Backend* backend : TestBackends()) {
    Run run = TrainingRun(*backend, f, c);
    run.program->Run(false);
    std::printf("Faster R-CNN R50-FPN, %s batch norm, on %s\n", frozen ? "frozen" : "trained",
                backend->name().c_str());
    Errors losses, gradients;
    std::vector<float> rpn = run.Floats("rpn_losses"), roi = run.Floats("roi_losses");
    const std::pair<const char*, float> terms[] = {{"loss_objectness", rpn[0]},
                                                   {"loss_rpn_box_reg", rpn[1]},
                                                   {"loss_classifier", roi[0]},
                                                   {"loss_box_reg", roi[1]}};
    for (const auto& [name, value] : terms) {
      const double exact = f.Scalar(std::string("train.") + name);
      const double single = f.Scalar(std::string("train.loss32.") + name);
      losses.Add(name, std::abs(value / exact - 1), std::abs(single / exact - 1), 2e-5);
    }
    const std::vector<float> all = run.params->Read(Storage::kGrad);
    for (const Param& p : run.params->layout().params()) {
      if (!f.Has("train.grad." + p.name)) continue;  // of a frozen norm
      gradients.Add(p.name, RelativeError(Gradient(all, p), f.Floats("train.grad." + p.name)),
                    f.Scalar("train.grad_error32." + p.name), 2e-4);
    }
    losses.Print("  losses");
    gradients.Print("  gradients");
    CHECK(gradients.count() == (frozen ? 83 : 189));
  }
}

TEST_CASE("Faster R-CNN's first SGD step is torchvision's") {
  Fixture f("frcnn_small.safetensors");
  for (Backend* backend : TestBackends()) {
    INFO(backend->name());
    Run run = TrainingRun(*backend, f, SmallCase(0));
    run.program->Run();
    std::vector<float> before = LoadState(f, run.params->layout()).params;
    std::vector<float> after = run.params->Read(Storage::kParam),
                       grads = run.params->Read(Storage::kGrad);
    for (const Param& p : run.params->layout().params()) {
      for (int64_t i = p.offset; i < p.offset + p.elements(); ++i) {
        size_t k = static_cast<size_t>(i);
        float expected = before[k] - 0.02f * (grads[k] + 1e-4f * before[k]);
        if (std::abs(after[k] - expected) > 1e-6f * std::max(1.0f, std::abs(expected)))
          FAIL(p.name << " element " << i - p.offset);
      }
    }
  }
}

TEST_CASE("Faster R-CNN's detections are torchvision's") {
  const Case c = SmallCase(GENERATE(0, 1));
  Fixture f(c.file);
  for (Backend* backend : TestBackends()) {
    INFO(backend->name() << ", " << c.file);
    Run run(c);
    auto layout = std::make_shared<ParamLayout>();
    Graph g(layout);
    run.model->BuildEvaluation(g, {kImages, c.shape.height, c.shape.width, 0});
    RunPasses(g, {});
    run.params = std::make_unique<ParamBuffers>(*backend, layout, DType::kF32, false, 0, false);
    train::FlatState state = LoadState(f, *layout);
    run.params->Write(Storage::kState, state.states);
    run.params->Write(Storage::kParam, state.params);
    run.program = std::make_unique<Program>(*backend, std::move(g), *run.params);
    SetImages(f, c, run);
    run.program->Run();
    std::vector<float> boxes = run.Floats("boxes"), scores = run.Floats("scores"),
                       counts = run.Floats("counts"), labels = run.Floats("labels");
    for (size_t i = 0; i < kImages; ++i) {
      std::string n = std::to_string(i);
      std::vector<float> expected = f.Floats("eval.scores" + n);
      int32_t count;
      std::memcpy(&count, &counts[i], 4);
      REQUIRE(count == static_cast<int32_t>(expected.size()));
      CHECK(RelativeError(Part(boxes, 120 * i, 4 * expected.size()), f.Floats("eval.boxes" + n)) <
            2e-5);
      CHECK(RelativeError(Part(scores, 30 * i, expected.size()), expected) < 2e-5);
      std::vector<int32_t> wanted = f.Ints("eval.labels" + n);
      for (size_t k = 0; k < wanted.size(); ++k) {
        int32_t label;
        std::memcpy(&label, &labels[30 * i + k], 4);
        CHECK(label + 1 == wanted[k]);
      }
    }
  }
}
