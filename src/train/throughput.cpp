#include "exp/train/throughput.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "exp/base/error.h"
#include "exp/base/philox.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/passes.h"
#include "exp/graph/program.h"
#include "exp/models/zoo.h"
#include "exp/train/flat_state.h"
#include "exp/train/update.h"
#include "src/train/device.h"

namespace xp::train {
namespace {

using Clock = std::chrono::steady_clock;
using graph::DType;
using graph::Graph;
using graph::Program;
using graph::Storage;
using graph::TensorId;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// Inputs of a plausible batch: noise for images, boxes of all sizes.
std::vector<char> Synthesize(const graph::Tensor& t, const models::BatchShape& shape, int classes) {
  std::vector<char> bytes(t.bytes());
  RandomStream random(0, RandomPurpose::kSynthesize, 0,
                      static_cast<uint32_t>(HashBytes(t.name).low));
  if (t.name == "images") {
    for (char& b : bytes) b = static_cast<char>(random.NextU32());
    return bytes;
  }
  std::vector<float> floats;
  std::vector<int32_t> ints;
  if (t.name == "sizes") {
    for (int i = 0; i < shape.n; ++i) ints.insert(ints.end(), {shape.height, shape.width});
  } else if (t.name == "gt_boxes") {
    for (int i = 0; i < shape.n * shape.max_boxes; ++i) {
      double x = random.Uniform(0, 0.6 * shape.width), y = random.Uniform(0, 0.6 * shape.height);
      double w = random.Uniform(16, 16 + 0.3 * shape.width),
             h = random.Uniform(16, 16 + 0.3 * shape.height);
      for (double v : {x, y, x + w, y + h}) floats.push_back(static_cast<float>(v));
    }
  } else if (t.name == "gt_counts") {
    ints.assign(static_cast<size_t>(shape.n), shape.max_boxes);
  } else if (t.name == "gt_labels" || t.name == "labels") {
    for (int64_t i = 0; i < t.elements(); ++i)
      ints.push_back(static_cast<int32_t>(random.Below(static_cast<uint32_t>(classes))));
  } else if (t.name == "lr") {
    floats = {1e-4f};
  } else if (t.name == "first") {
    ints = {1};
  }
  if (!floats.empty())
    std::memcpy(bytes.data(), floats.data(), std::min(bytes.size(), floats.size() * 4));
  if (!ints.empty())
    std::memcpy(bytes.data(), ints.data(), std::min(bytes.size(), ints.size() * 4));
  return bytes;
}

// A model on a device, ready to step.
class Trial {
 public:
  explicit Trial(const ThroughputCase& c) : model_(models::CreateFromZoo(c.model)) {
    const models::ZooEntry& entry = models::FindInZoo(c.model);
    shape_ = {c.batch, c.height > 0 ? c.height : entry.height, c.width > 0 ? c.width : entry.width,
              std::max(1, entry.max_boxes)};
    OpenedDevice device = OpenDevice({c.device, c.precision, c.threads, c.deterministic});
    backend_ = std::move(device.backend);
    auto layout = std::make_shared<graph::ParamLayout>();
    Graph g(layout, device.compute);
    model_->BuildTraining(g, shape_);
    graph::RunPasses(g, {.fuse_norm = c.fusion, .fuse_conv = c.fusion});
    graph::AppendBackward(g);
    AppendUpdate(g, optimizer_);
    params_ = std::make_unique<graph::ParamBuffers>(*backend_, layout, device.compute, true,
                                                    OptimizerSlotCount(optimizer_), false);
    InitializeFlat(*layout);
    program_ = std::make_unique<Program>(*backend_, std::move(g), *params_);
    for (size_t i = 0; i < program_->graph().tensors().size(); ++i) {
      const graph::Tensor& t = program_->graph().tensors()[i];
      if (t.storage != Storage::kInput) continue;
      std::vector<char> bytes = Synthesize(t, shape_, model_->num_classes());
      program_->SetInput(static_cast<TensorId>(i), bytes.data(), bytes.size());
    }
  }

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) program_->Run();
    backend_->Synchronize();
  }
  double Loss() {
    double total = 0;
    for (const models::LossTerm& term : model_->losses()) {
      TensorId id = program_->graph().Find(term.output, Storage::kOutput);
      std::vector<float> values(static_cast<size_t>(program_->graph().tensor(id).elements()));
      program_->Read(id, values.data(), values.size() * sizeof(float));
      total += values[static_cast<size_t>(term.index)];
    }
    return total;
  }
  uint64_t bytes() const { return params_->TotalBytes() + program_->bytes(); }
  const std::string& device() const { return backend_->description(); }
  std::vector<Program::OpTime> Profile() {
    program_->Profile();  // once to warm up
    return program_->Profile();
  }

 private:
  void InitializeFlat(const graph::ParamLayout& layout) {
    std::vector<float> params(static_cast<size_t>(layout.param_elements())),
        states(static_cast<size_t>(layout.state_elements()));
    graph::InitializeParams(layout, 0, params.data());
    graph::InitializeStates(layout, states.data());
    params_->Write(Storage::kState, states);
    params_->Write(Storage::kParam, params);
  }

  OptimizerOptions optimizer_;
  std::unique_ptr<models::Model> model_;
  models::BatchShape shape_;
  std::unique_ptr<graph::Backend> backend_;
  std::unique_ptr<graph::ParamBuffers> params_;
  std::unique_ptr<Program> program_;
};

void Measure(const ThroughputCase& c, ThroughputResult* r) {
  Clock::time_point start = Clock::now();
  Trial trial(c);
  r->device = trial.device();
  r->bytes = trial.bytes();
  trial.Run(1);
  r->setup_seconds = Seconds(start);
  trial.Run(std::max(0, c.warmup - 1));
  Clock::time_point once = Clock::now();
  trial.Run(1);
  int steps = std::max(3, static_cast<int>(c.seconds_a_repeat / std::max(Seconds(once), 1e-6)));
  std::vector<double> times;
  for (int i = 0; i < std::max(1, c.repeats); ++i) {
    Clock::time_point begin = Clock::now();
    trial.Run(steps);
    times.push_back(Seconds(begin) / steps);
  }
  std::sort(times.begin(), times.end());
  double median = times[times.size() / 2];
  r->milliseconds = median * 1e3;
  r->images_per_second = c.batch / median;
  r->spread = (times.back() - times.front()) / median;
  r->loss = trial.Loss();
  if (!c.profile) return;
  for (const Program::OpTime& t : trial.Profile())
    r->profile.push_back({t.name, graph::OpName(t.type), t.milliseconds});
}

}  // namespace

ThroughputResult MeasureThroughput(const ThroughputCase& c) {
  ThroughputResult r;
  try {
    Measure(c, &r);
  } catch (const Error& e) {
    bool memory = std::string(e.text().what).starts_with("mem lim");
    r.status = memory ? ThroughputStatus::kMemoryLimit : ThroughputStatus::kFailed;
    r.reason = e.what();
  } catch (const std::exception& e) {
    r.status = ThroughputStatus::kFailed;
    r.reason = e.what();
  }
  return r;
}

}  // namespace xp::train
