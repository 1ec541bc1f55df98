#include "src/train/step_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "exp/graph/autodiff.h"
#include "exp/graph/memory_plan.h"
#include "exp/graph/passes.h"
#include "src/train/largest_batch.h"

namespace xp::train {

using graph::Graph;
using graph::kNoTensor;
using graph::Program;
using graph::Storage;
using graph::TensorId;

StepRunner::StepRunner(graph::Backend& backend, const models::Model& model,
                       graph::ParamBuffers& params, graph::DType compute,
                       const OptimizerOptions& optimizer,
                       const std::vector<models::BatchShape>& shapes)
    : backend_(backend),
      model_(model),
      params_(params),
      compute_(compute),
      optimizer_(optimizer),
      terms_(model.losses()) {
  for (const models::LossTerm& term : terms_) {
    if (std::find(output_names_.begin(), output_names_.end(), term.output) == output_names_.end()) {
      output_names_.push_back(term.output);
    }
  }
  std::shared_ptr<graph::Buffer> arena;  // the largest shape comes first and fits all others
  for (const models::BatchShape& shape : shapes) {
    try {
      programs_.push_back(Build(shape, arena));
    } catch (const graph::MemoryLimit& error) {
      throw WithLargestBatch(error, shape);
    }
    arena = programs_.back().program->arena();
  }
}

int StepRunner::LargestFittingBatch(const graph::MemoryLimit& error,
                                    const models::BatchShape& shape) const {
  auto graph_of = [&](int n) {
    models::BatchShape smaller = shape;
    smaller.n = n;
    return StepGraph(smaller);
  };
  auto planned = [&](int n) {
    Graph g = graph_of(n);
    graph::MemoryPlan plan = graph::PlanMemory(g, std::vector<size_t>(g.ops().size(), 0));
    return plan.arena_bytes + plan.persistent_bytes;
  };
  // At first as if the kernels' workspaces were those of the batch that doesn't fit. Libraries
  // choose other kernels for other batches, so the answer is tried.
  size_t whole = planned(shape.n);
  size_t rest = error.needed_bytes() > whole ? error.needed_bytes() - whole : 0;
  int n = LargestBatch([&](int m) { return planned(m) + rest; }, error.free_bytes(), shape.n);
  while (n > 0 && graph::Program::BytesNeeded(backend_, graph_of(n)) > error.free_bytes()) {
    n -= (n + 7) / 8;
  }
  return n;
}

graph::MemoryLimit StepRunner::WithLargestBatch(const graph::MemoryLimit& error,
                                                const models::BatchShape& shape) const {
  int largest = LargestFittingBatch(error, shape);
  ErrorText text = error.text();
  text.what += fmt::format("; {} images of {} x {} a step were asked for, ", shape.n, shape.width,
                           shape.height);
  text.what += largest > 0 ? fmt::format("{} would fit", largest) : "not even one fits";
  if (largest > 0) {
    text.next = fmt::format(
        "--set data.samples_per_gpu={} (`exp check` says which optimizer.lr suits that batch; "
        "optimizer_config.cumulative_iters keeps the effective batch), or free memory on the "
        "device",
        largest);
  } else {
    text.next =
        "lower img_scale, set model.backbone.with_cp=true (a ResNet's blocks are made again for "
        "the "
        "gradients), or free memory on the device";
  }
  return {std::move(text), error.needed_bytes(), error.free_bytes()};
}

Graph StepRunner::StepGraph(const models::BatchShape& shape) const {
  // The layout is complete since the trainer built one graph for it: adding finds what is there.
  Graph g(std::make_shared<graph::ParamLayout>(params_.layout()), compute_);
  model_.BuildTraining(g, shape);
  graph::RunPasses(g, {});
  graph::AppendBackward(g);
  AppendUpdate(g, optimizer_);
  return g;
}

StepRunner::Entry StepRunner::Build(const models::BatchShape& shape,
                                    std::shared_ptr<graph::Buffer> arena) {
  Graph g = StepGraph(shape);
  Entry e;
  e.shape = shape;
  auto input = [&](const char* name) { return g.Find(name, Storage::kInput); };
  e.images = input("images"), e.sizes = input("sizes");
  e.boxes = input("gt_boxes"), e.counts = input("gt_counts");
  e.labels = input(model_.task() == models::Task::kDetection ? "gt_labels" : "labels");
  e.key = input("step_key"), e.lr = input("lr"), e.first = input("first"),
  e.weight = input("weight"), e.ema = input("ema_momentum");
  e.norm = g.Find("grad_norm", Storage::kOutput);
  for (const std::string& name : output_names_) e.outputs.push_back(g.Find(name, Storage::kOutput));
  e.program = std::make_unique<Program>(backend_, std::move(g), params_, std::move(arena));
  return e;
}

StepRunner::Entry& StepRunner::Find(const data::Batch& batch) {
  for (Entry& e : programs_) {
    if (e.shape.n == batch.n && e.shape.height == batch.height && e.shape.width == batch.width)
      return e;
  }
  throw std::logic_error("the loader gave a batch shape that it didn't announce");
}

PendingLosses StepRunner::Run(const data::Batch& batch, const MicroStep& micro) {
  Entry& e = Find(batch);
  Program& p = *e.program;
  auto set = [&](TensorId id, const void* data) {
    if (id != kNoTensor) p.SetInput(id, data, p.graph().tensor(id).bytes());
  };
  set(e.images, batch.images.data());
  set(e.sizes, batch.image_sizes.data());
  if (model_.task() == models::Task::kDetection) {
    // A data set without any box still has room for one.
    static const std::vector<float> no_boxes(4 * 65536);
    bool empty = batch.max_boxes == 0;
    set(e.boxes, empty ? no_boxes.data() : batch.boxes.data());
    set(e.labels, empty ? static_cast<const void*>(no_boxes.data()) : batch.labels.data());
    set(e.counts, batch.box_counts.data());
  } else {
    set(e.labels, batch.labels.data());
  }
  uint32_t key[4] = {static_cast<uint32_t>(micro.seed), static_cast<uint32_t>(micro.seed >> 32),
                     static_cast<uint32_t>(micro.step), static_cast<uint32_t>(micro.first_image)};
  set(e.key, key);
  float rate = static_cast<float>(micro.lr), weight = static_cast<float>(micro.weight);
  set(e.lr, &rate);
  int32_t is_first = micro.first ? 1 : 0;
  set(e.first, &is_first);
  set(e.weight, &weight);
  float ema_momentum = static_cast<float>(optimizer_.ema_momentum);
  set(e.ema, &ema_momentum);
  p.Run(micro.update);
  PendingLosses pending;
  if (e.norm != kNoTensor && micro.update) pending.norm = p.ReadAsync(e.norm);
  for (TensorId id : e.outputs) pending.reads.push_back(p.ReadAsync(id));
  return pending;
}

NamedValues PendingLosses::Wait(const std::vector<models::LossTerm>& terms,
                                const std::vector<std::string>& outputs) {
  std::vector<const float*> values;
  values.reserve(reads.size());
  for (auto& read : reads) values.push_back(static_cast<const float*>(read->Wait()));
  if (norm) grad_norm = *static_cast<const float*>(norm->Wait());
  NamedValues losses;
  for (const models::LossTerm& term : terms) {
    size_t i = static_cast<size_t>(std::find(outputs.begin(), outputs.end(), term.output) -
                                   outputs.begin());
    losses.emplace_back(term.name, values[i][term.index]);
  }
  return losses;
}

NamedValues StepRunner::Losses(PendingLosses& pending) {
  return pending.Wait(terms_, output_names_);
}

size_t StepRunner::planned_bytes() const {
  size_t persistent = 0, arena = 0;
  for (const Entry& e : programs_) {
    persistent += e.program->plan().persistent_bytes;
    arena = std::max(arena, e.program->arena()->bytes());
  }
  return persistent + arena;
}

}  // namespace xp::train
