// The whole SSD300 against torchvision's, from the same weights, images and targets, at a sixteenth
// of the width (tests/fixtures/ssd_small.safetensors: results in float64).
#include <algorithm>
#include <cmath>

#include "catch.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/passes.h"
#include "exp/graph/program.h"
#include "exp/models/ssd.h"
#include "exp/train/flat_state.h"
#include "exp/train/update.h"
#include "graph/fixture.h"
#include "models/full_width.h"

using namespace xp;
using namespace xp::graph;

namespace {

constexpr int kImages = 2, kSide = 300, kBoxes = 3;

// A sixteenth of the width, or all of it.
struct Case {
  std::string file, name;
  models::SsdOptions options;
};

Case SmallCase() {
  Case c{"ssd_small.safetensors", "ssd_small.", {}};
  c.options.num_classes = 3;
  c.options.base_channels = 4;
  return c;
}

// gen_ssd_model.py's formula.
std::vector<uint8_t> Images() {
  std::vector<uint8_t> pixels;
  for (int image = 0; image < kImages; ++image) {
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        for (int c = 0; c < 3; ++c) {
          int v = x * (3 + c) + y * (5 + image) + (x * y) / (31 + 7 * c) + 60 * c;
          pixels.push_back(static_cast<uint8_t>(v % 256));
        }
      }
    }
  }
  return pixels;
}

std::vector<float> Read(const Program& program, const std::string& name) {
  TensorId id = program.graph().Find(name, Storage::kOutput);
  REQUIRE(id != kNoTensor);
  std::vector<float> values(static_cast<size_t>(program.graph().tensor(id).elements()));
  program.Read(id, values.data(), values.size() * 4);
  return values;
}

// `Floats` of a tensor in a parameter's own memory order.
std::vector<float> InMemoryOrder(const Fixture& f, const Param& p, const std::string& name) {
  std::vector<float> file = f.Floats(name), memory(file.size());
  FromFileOrder(p, file.data(), memory.data());
  return memory;
}

double Norm(const float* v, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(v[i]) * v[i];
  return std::sqrt(sum);
}

struct Side {
  Side(const Case& c, const Fixture& f, bool training) {
    auto layout = std::make_shared<ParamLayout>();
    Graph g(layout);
    auto model = models::MakeSsd300(c.options);
    models::BatchShape shape{kImages, kSide, kSide, kBoxes};
    if (training) {
      model->BuildTraining(g, shape);
      RunPasses(g, {});
      AppendBackward(g);
    } else {
      model->BuildEvaluation(g, shape);
      RunPasses(g, {});
    }
    params = std::make_unique<ParamBuffers>(*backend, layout, DType::kF32, training, 0, false);
    train::FlatState state;
    state.params.resize(static_cast<size_t>(layout->param_elements()));
    for (const Param& p : layout->params()) {
      const std::string name = c.name + "model." + p.name;
      train::NamedTensor t{p.name, f.shape(name), f.Floats(name)};
      REQUIRE(train::ImportTensor(*layout, t, {}, "fixture", &state));
    }
    params->Write(Storage::kParam, state.params);
    program = std::make_unique<Program>(*backend, std::move(g), *params);
    std::vector<uint8_t> images = Images();
    std::vector<int32_t> sizes{kSide, kSide, kSide, kSide};
    program->SetInput("images", images.data(), images.size());
    program->SetInput("sizes", sizes.data(), sizes.size() * 4);
    if (training) SetTruth(f, c.name);
    program->Run();
  }

  void SetTruth(const Fixture& f, const std::string& name) {
    std::vector<float> boxes(kImages * kBoxes * 4);
    std::vector<int32_t> labels(kImages * kBoxes, -1), counts;
    for (int i = 0; i < kImages; ++i) {
      std::vector<float> b = f.Floats(name + "boxes" + std::to_string(i));
      std::vector<int32_t> l = f.Ints(name + "labels" + std::to_string(i));
      std::copy(b.begin(), b.end(), boxes.begin() + i * kBoxes * 4);
      for (size_t k = 0; k < l.size(); ++k)
        labels[static_cast<size_t>(i * kBoxes) + k] = l[k] - 1;  // torchvision: 0 is background
      counts.push_back(static_cast<int32_t>(l.size()));
    }
    uint32_t key[4] = {};
    program->SetInput("gt_boxes", boxes.data(), boxes.size() * 4);
    program->SetInput("gt_labels", labels.data(), labels.size() * 4);
    program->SetInput("gt_counts", counts.data(), counts.size() * 4);
    program->SetInput("step_key", key, sizeof key);
  }

  std::unique_ptr<Backend> backend = CreateCpuBackend(1);
  std::unique_ptr<ParamBuffers> params;
  std::unique_ptr<Program> program;
};

}  // namespace

TEST_CASE("SSD300's losses and gradients are torchvision's") {
  Fixture f("ssd_small.safetensors");
  Side side(SmallCase(), f, true);
  std::vector<float> losses = Read(*side.program, "ssd_losses");
  CHECK(losses[1] == Approx(f.Scalar("ssd_small.loss.bbox_regression")).epsilon(1e-4));
  CHECK(losses[0] == Approx(f.Scalar("ssd_small.loss.classification")).epsilon(1e-4));

  std::vector<float> grad = side.params->Read(Storage::kGrad);
  double all = 0, expected_all = 0;
  for (float norm : f.Floats("ssd_small.grad_norms"))
    expected_all += static_cast<double>(norm) * norm;
  int compared = 0;
  for (const Param& p : side.params->layout().params()) {
    all += std::pow(Norm(grad.data() + p.offset, p.elements()), 2);
    const std::string name = "ssd_small.grad." + p.name;
    if (!f.Has(name)) continue;
    INFO(p.name);
    std::vector<float> expected = InMemoryOrder(f, p, name);
    double difference = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      double d = static_cast<double>(grad[static_cast<size_t>(p.offset) + i]) - expected[i];
      difference += d * d;
    }
    CHECK(std::sqrt(difference) <
          5e-4 * Norm(expected.data(), static_cast<int64_t>(expected.size())) + 1e-12);
    ++compared;
  }
  CHECK(compared == 5);
  CHECK(std::sqrt(all) == Approx(std::sqrt(expected_all)).epsilon(2e-4));
}

TEST_CASE("SSD300's losses and gradients are torchvision's at full width", "[.full]") {
  Case c{FullFixture("ssd_full.safetensors"), "ssd_full.", {}};
  c.options.num_classes = 90;
  Fixture f(c.file);
  Side side(c, f, true);
  std::printf("SSD300-VGG16\n");
  Errors losses, gradients;
  const std::vector<float> got = Read(*side.program, "ssd_losses");
  const std::pair<const char*, float> terms[] = {{"classification", got[0]},
                                                 {"bbox_regression", got[1]}};
  for (const auto& [name, value] : terms) {
    const double exact = f.Scalar(c.name + "loss." + name);
    const double single = f.Scalar(c.name + "loss32." + name);
    losses.Add(name, std::abs(value / exact - 1), std::abs(single / exact - 1), 2e-5);
  }
  const std::vector<float> all = side.params->Read(Storage::kGrad);
  for (const Param& p : side.params->layout().params()) {
    const std::vector<float> expected = InMemoryOrder(f, p, c.name + "grad." + p.name);
    std::vector<float> difference(expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      difference[i] = all[static_cast<size_t>(p.offset) + i] - expected[i];
    gradients.Add(p.name,
                  Norm(difference.data(), p.elements()) / Norm(expected.data(), p.elements()),
                  f.Scalar(c.name + "grad_error32." + p.name), 2e-4);
  }
  losses.Print("  losses");
  gradients.Print("  gradients");
  CHECK(gradients.count() == 71);
}

TEST_CASE("SSD300's detections are torchvision's") {
  Fixture f("ssd_small.safetensors");
  Side side(SmallCase(), f, false);
  std::vector<float> scores = Read(*side.program, "scores");
  size_t capacity = scores.size() / kImages;
  for (int i = 0; i < kImages; ++i) {
    std::vector<float> expected = f.Floats("ssd_small.eval.scores" + std::to_string(i));
    REQUIRE(expected.size() <= capacity);
    std::sort(expected.rbegin(), expected.rend());
    auto begin = scores.begin() + static_cast<std::ptrdiff_t>(i * capacity);
    std::vector<float> got(begin, begin + static_cast<std::ptrdiff_t>(expected.size()));
    for (size_t k = 0; k < expected.size(); ++k) CHECK(std::abs(got[k] - expected[k]) < 1e-3);
  }
}
