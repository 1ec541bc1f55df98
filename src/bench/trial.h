// A model on a device, ready to step; private to src/bench.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exp/bench/row.h"
#include "exp/graph/backend.h"
#include "exp/graph/program.h"
#include "exp/models/model.h"
#include "exp/train/update.h"
#include "src/train/device.h"

namespace xp::bench {

// The training graph of a case, without a device.
struct TrialGraph {
  std::unique_ptr<models::Model> model;
  models::BatchShape shape;
  std::unique_ptr<graph::Graph> graph;
};
TrialGraph BuildTrialGraph(const Case& c, graph::DType compute,
                           const train::OptimizerOptions& optimizer);

// Bytes of the flat buffers and of the memory plan without workspaces, after the rewrites that the
// device asks for.
uint64_t PlannedBytes(const graph::Graph& g, const train::OptimizerOptions& optimizer,
                      const graph::StepPasses& passes);

// 2 x multiply-adds of convolutions and linear layers; bytes that the operations read and write.
struct Work {
  double flop = 0, bytes = 0;
};
Work WorkOf(const graph::Graph& g);

train::OpenedDevice OpenBackend(const Case& c);
// Without kernels: whether the free memory holds the plan. Throws JobError "mem lim ..." if not.
void RequireMemory(graph::Backend& backend, uint64_t bytes);

class Trial {
 public:
  explicit Trial(const Case& c, StopFlag stop = nullptr);

  void Start();  // one step, without waiting
  void Wait() { backend_->Synchronize(); }
  void SetImages(const std::vector<uint8_t>& images, const std::vector<int32_t>& labels);
  double Loss();
  uint64_t bytes() const { return params_->TotalBytes() + program_->bytes(); }
  const std::string& device() const { return backend_->description(); }
  // What is computed, and why that isn't what the case asks for (else empty).
  const std::string& precision() const { return precision_; }
  const std::string& precision_note() const { return precision_note_; }
  const models::BatchShape& shape() const { return shape_; }
  const models::Model& model() const { return *model_; }
  // FLOP of the model as it is written, bytes of the operations that run.
  Work work() const { return {flop_, WorkOf(program_->graph()).bytes}; }
  std::vector<OperationTime> Profile();

 private:
  void Initialize(const graph::ParamLayout& layout);
  void SetSynthetic();

  train::OptimizerOptions optimizer_;
  std::unique_ptr<models::Model> model_;
  models::BatchShape shape_;
  double flop_ = 0;
  std::string precision_, precision_note_;
  std::unique_ptr<graph::Backend> backend_;
  std::unique_ptr<graph::ParamBuffers> params_;
  std::unique_ptr<graph::Program> program_;
};

}  // namespace xp::bench
