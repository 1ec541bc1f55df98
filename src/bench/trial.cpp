#include "src/bench/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exp/base/error.h"
#include "exp/base/philox.h"
#include "exp/graph/autodiff.h"
#include "exp/graph/passes.h"
#include "exp/models/zoo.h"
#include "src/bench/uncaptured.h"

namespace xp::bench {
namespace {

using graph::DType;
using graph::Graph;
using graph::Storage;
using graph::TensorId;

// Inputs of a plausible batch: noise for images, boxes of all sizes.
std::vector<char> Synthesize(const graph::Tensor& t, const models::BatchShape& shape, int classes) {
  std::vector<char> bytes(t.bytes());
  RandomStream random(0, RandomPurpose::kSynthesize, 0,
                      static_cast<uint32_t>(HashBytes(t.name).low));
  if (t.name == "images") {
    // One random image, turned a little for each further one: a batch of 512 would take seconds.
    size_t image = static_cast<size_t>(shape.height) * shape.width * 3;
    for (size_t i = 0; i < std::min(image, bytes.size()); ++i) {
      bytes[i] = static_cast<char>(random.NextU32());
    }
    for (size_t i = image; i < bytes.size(); ++i) {
      bytes[i] = static_cast<char>(bytes[i - image] + 37);
    }
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

double Gib(uint64_t bytes) { return static_cast<double>(bytes) / (1u << 30); }

}  // namespace

TrialGraph BuildTrialGraph(const Case& c, DType compute, const train::OptimizerOptions& optimizer) {
  TrialGraph t;
  t.model = models::CreateFromZoo(c.model);
  const models::ZooEntry& entry = models::FindInZoo(c.model);
  t.shape = {c.batch, c.height > 0 ? c.height : entry.height, c.width > 0 ? c.width : entry.width,
             std::max(1, entry.max_boxes)};
  t.graph = std::make_unique<Graph>(std::make_shared<graph::ParamLayout>(), compute);
  t.model->BuildTraining(*t.graph, t.shape);
  graph::RunPasses(*t.graph, {.fuse_norm = c.fusion, .fuse_conv = c.fusion});
  graph::AppendBackward(*t.graph);
  train::AppendUpdate(*t.graph, optimizer);
  return t;
}

uint64_t PlannedBytes(const Graph& written, const train::OptimizerOptions& optimizer,
                      const graph::StepPasses& passes) {
  Graph g = written;
  if (g.fusible()) graph::RunStepPasses(g, passes);
  graph::MemoryPlan plan = graph::PlanMemory(g, std::vector<size_t>(g.ops().size(), 0));
  return plan.arena_bytes + plan.persistent_bytes +
         graph::ParamBuffers::BytesNeeded(g.layout(), g.compute(), true,
                                          train::OptimizerSlotCount(optimizer), false);
}

Work WorkOf(const Graph& g) {
  Work work;
  auto shape = [&](TensorId id) -> const graph::Shape& { return g.tensor(id).shape; };
  auto product = [](const graph::Shape& s) { return static_cast<double>(graph::NumElements(s)); };
  for (const graph::Op& op : g.ops()) {
    for (const auto* list : {&op.inputs, &op.outputs}) {
      for (TensorId id : *list) {
        if (id != graph::kNoTensor) work.bytes += static_cast<double>(g.tensor(id).bytes());
      }
    }
    switch (op.type) {
      case graph::OpType::kConv2d:  // x, w -> y: each output is a sum over a filter
        work.flop += 2 * product(shape(op.outputs[0])) * product(shape(op.inputs[1])) /
                     static_cast<double>(shape(op.inputs[1])[0]);
        break;
      case graph::OpType::kConv2dDgrad:  // dy, w -> dx
        work.flop += 2 * product(shape(op.inputs[0])) * product(shape(op.inputs[1])) /
                     static_cast<double>(shape(op.inputs[1])[0]);
        break;
      case graph::OpType::kConv2dWgrad:  // x, dy -> dw
        work.flop += 2 * product(shape(op.inputs[1])) * product(shape(op.outputs[0])) /
                     static_cast<double>(shape(op.outputs[0])[0]);
        break;
      case graph::OpType::kLinear:  // x, w -> y
        work.flop +=
            2 * product(shape(op.outputs[0])) * static_cast<double>(shape(op.inputs[1])[1]);
        break;
      case graph::OpType::kLinearDgrad:  // dy, w -> dx
        work.flop += 2 * product(shape(op.inputs[0])) * static_cast<double>(shape(op.inputs[1])[1]);
        break;
      case graph::OpType::kLinearWgrad:  // x, dy -> dw [O, K]
        work.flop +=
            2 * product(shape(op.inputs[1])) * static_cast<double>(shape(op.outputs[0])[1]);
        break;
      default:
        break;
    }
  }
  return work;
}

train::OpenedDevice OpenBackend(const Case& c) {
  train::OpenedDevice device =
      train::OpenDevice({c.device, c.precision, c.threads, c.deterministic});
  if (!c.captured) device.backend = std::make_unique<UncapturedBackend>(std::move(device.backend));
  return device;
}

void RequireMemory(graph::Backend& backend, uint64_t bytes) {
  graph::DeviceMemory memory = backend.Memory();
  if (bytes <= memory.free_bytes) return;
  throw JobError({.what = fmt::format("mem lim: one step needs at least {:.2f} GiB, {:.2f} GiB of "
                                      "{:.2f} GiB are free",
                                      Gib(bytes), Gib(memory.free_bytes), Gib(memory.total_bytes)),
                  .where = backend.name()});
}

Trial::Trial(const Case& c, StopFlag stop) {
  train::OpenedDevice device = OpenBackend(c);
  const DType compute = device.compute;
  backend_ = std::move(device.backend);
  precision_ = device.precision;
  precision_note_ = device.precision_note;
  TrialGraph t = BuildTrialGraph(c, compute, optimizer_);
  // Before kernels are made: searching plans for what can't fit would take minutes.
  RequireMemory(*backend_, PlannedBytes(*t.graph, optimizer_, backend_->step_passes()));
  flop_ = WorkOf(*t.graph).flop;
  model_ = std::move(t.model);
  shape_ = t.shape;
  auto layout = t.graph->shared_layout();
  params_ = std::make_unique<graph::ParamBuffers>(*backend_, layout, compute, true,
                                                  train::OptimizerSlotCount(optimizer_), false);
  Initialize(*layout);
  backend_->StopAt(stop);
  program_ = std::make_unique<graph::Program>(*backend_, std::move(*t.graph), *params_);
  backend_->StopAt(nullptr);
  SetSynthetic();
}

void Trial::Initialize(const graph::ParamLayout& layout) {
  std::vector<float> params(static_cast<size_t>(layout.param_elements())),
      states(static_cast<size_t>(layout.state_elements()));
  graph::InitializeParams(layout, 0, params.data());
  graph::InitializeStates(layout, states.data());
  params_->Write(Storage::kState, states);
  params_->Write(Storage::kParam, params);
}

void Trial::SetSynthetic() {
  for (size_t i = 0; i < program_->graph().tensors().size(); ++i) {
    const graph::Tensor& t = program_->graph().tensors()[i];
    if (t.storage != Storage::kInput) continue;
    std::vector<char> bytes = Synthesize(t, shape_, model_->num_classes());
    program_->SetInput(static_cast<TensorId>(i), bytes.data(), bytes.size());
  }
}

void Trial::SetImages(const std::vector<uint8_t>& images, const std::vector<int32_t>& labels) {
  program_->SetInput("images", images.data(), images.size());
  program_->SetInput("labels", labels.data(), labels.size() * sizeof(int32_t));
}

void Trial::Start() { program_->Run(); }

double Trial::Loss() {
  double total = 0;
  for (const models::LossTerm& term : model_->losses()) {
    TensorId id = program_->graph().Find(term.output, Storage::kOutput);
    std::vector<float> values(static_cast<size_t>(program_->graph().tensor(id).elements()));
    program_->Read(id, values.data(), values.size() * sizeof(float));
    total += values[static_cast<size_t>(term.index)];
  }
  return total;
}

std::vector<OperationTime> Trial::Profile() {
  program_->Profile();  // once to warm up
  std::vector<OperationTime> out;
  for (const graph::Program::OpTime& t : program_->Profile()) {
    out.push_back({t.name, graph::OpName(t.type), t.milliseconds});
  }
  return out;
}

}  // namespace xp::bench
