// ResNeXt and SE-ResNeXt classifiers against torchvision's and timm's own blocks, from the same
// weights, images and labels (tests/fixtures/resnext_small.safetensors: results in float64):
// logits, loss, every gradient, every running statistic.
#include <cmath>
#include <string>

#include "catch.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/passes.h"
#include "exp/graph/program.h"
#include "exp/models/classifier.h"
#include "exp/train/flat_state.h"
#include "graph/fixture.h"
#include "graph/run_graph.h"

using namespace xp;
using namespace xp::graph;

namespace {

constexpr int kImages = 3, kHeight = 70, kWidth = 64;

models::ClassifierOptions Options(bool squeeze_excite) {
  models::ClassifierOptions o;
  o.backbone.depth = 50;
  o.backbone.base_channels = 4;
  o.backbone.blocks = {1, 2, 1, 1};
  o.backbone.groups = 2;
  o.backbone.width_per_group = 32;
  o.backbone.squeeze_excite = squeeze_excite;
  o.num_classes = 5;
  o.label_smoothing = 0.1f;
  return o;
}

double RelativeError(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

// One of the fixture's networks, run once.
class Network {
 public:
  Network(Backend& backend, const std::string& name, bool training) : name_(name) {
    auto layout = std::make_shared<ParamLayout>();
    Graph g(layout);
    auto model = models::MakeClassifier(Options(name == "seresnext"));
    models::BatchShape shape{kImages, kHeight, kWidth, 0};
    training ? model->BuildTraining(g, shape) : model->BuildEvaluation(g, shape);
    RunPasses(g, {});
    if (training) AppendBackward(g);
    params_ = std::make_unique<ParamBuffers>(backend, layout, DType::kF32, training, 0, false);
    Load(*layout);
    program_ = std::make_unique<Program>(backend, std::move(g), *params_);
    SetInputs(training);
    program_->Run(false);
  }

  std::vector<float> Floats(const std::string& output) const {
    TensorId id = program_->graph().Find(output, Storage::kOutput);
    REQUIRE(id != kNoTensor);
    std::vector<float> values(static_cast<size_t>(program_->graph().tensor(id).elements()));
    program_->Read(id, values.data(), values.size() * 4);
    return values;
  }
  const ParamLayout& layout() const { return params_->layout(); }
  std::vector<float> Gradient(const Param& p) const {
    std::vector<float> all = params_->Read(Storage::kGrad), file(static_cast<size_t>(p.elements()));
    ToFileOrder(p, all.data() + p.offset, file.data());
    return file;
  }
  std::vector<float> State(const StateVar& s) const {
    std::vector<float> all = params_->Read(Storage::kState);
    auto begin = all.begin() + s.offset;
    return {begin, begin + NumElements(s.shape)};
  }

 private:
  void Load(const ParamLayout& layout) {
    train::FlatState state;
    state.params.resize(static_cast<size_t>(layout.param_elements()));
    state.states.resize(static_cast<size_t>(layout.state_elements()));
    auto load = [&](const std::string& name) {
      const std::string in_file = name_ + ".model." + name;
      train::NamedTensor t{name, fixture_.shape(in_file), fixture_.Floats(in_file)};
      REQUIRE(train::ImportTensor(layout, t, {}, "fixture", &state));
    };
    for (const Param& p : layout.params()) load(p.name);
    for (const StateVar& s : layout.states()) load(s.name);
    params_->Write(Storage::kState, state.states);
    params_->Write(Storage::kParam, state.params);
  }

  void SetInputs(bool training) {
    std::vector<uint8_t> chw = fixture_.Bytes("input.images"), images(chw.size());
    for (size_t i = 0; i < kImages; ++i) {
      for (size_t c = 0; c < 3; ++c) {
        for (size_t at = 0; at < kHeight * kWidth; ++at)
          images[(i * kHeight * kWidth + at) * 3 + c] = chw[(i * 3 + c) * kHeight * kWidth + at];
      }
    }
    std::vector<int32_t> sizes{kHeight, kWidth, kHeight, kWidth, kHeight, kWidth};
    program_->SetInput("images", images.data(), images.size());
    program_->SetInput("sizes", sizes.data(), sizes.size() * 4);
    if (!training) return;
    std::vector<int32_t> labels = fixture_.Ints("input.labels");
    uint32_t key[4] = {};
    program_->SetInput("labels", labels.data(), labels.size() * 4);
    program_->SetInput("step_key", key, sizeof key);
  }

  Fixture fixture_{"resnext_small.safetensors"};
  std::string name_;
  std::unique_ptr<ParamBuffers> params_;
  std::unique_ptr<Program> program_;
};

}  // namespace

TEST_CASE("ResNeXt and SE-ResNeXt train as torchvision's and timm's: loss, gradients, statistics") {
  Fixture f("resnext_small.safetensors");
  for (const std::string name : {"resnext", "seresnext"}) {
    for (Backend* backend : TestBackends()) {
      INFO(name << " on " << backend->name());
      Network network(*backend, name, true);
      CHECK(network.Floats("loss")[0] == Approx(f.Scalar(name + ".loss")).epsilon(1e-5));
      for (const Param& p : network.layout().params()) {
        INFO(p.name);
        CHECK(RelativeError(network.Gradient(p), f.Floats(name + ".grad." + p.name)) < 5e-4);
      }
      CHECK(network.layout().params().size() == (name == "resnext" ? 62u : 82u));
      for (const StateVar& s : network.layout().states()) {
        INFO(s.name);
        CHECK(RelativeError(network.State(s), f.Floats(name + ".after." + s.name)) < 2e-5);
      }
    }
  }
}

TEST_CASE("ResNeXt's and SE-ResNeXt's logits are torchvision's and timm's") {
  Fixture f("resnext_small.safetensors");
  for (const std::string name : {"resnext", "seresnext"}) {
    for (Backend* backend : TestBackends()) {
      INFO(name << " on " << backend->name());
      CHECK(RelativeError(Network(*backend, name, false).Floats("logits"),
                          f.Floats(name + ".logits")) < 2e-5);
    }
  }
}
