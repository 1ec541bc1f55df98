// The static graph: tensors with known shapes and operations in execution order. Models build the
// forward part through builder.h, AppendBackward adds the gradients, AppendUpdate the optimizer;
// a Program (program.h) runs it on a backend.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "exp/graph/ops.h"
#include "exp/graph/params.h"
#include "exp/graph/tensor.h"

namespace xp::graph {

class Graph {
 public:
  // `compute` is the type of activations and of convolution weights: f32, bf16 or f16.
  explicit Graph(std::shared_ptr<ParamLayout> layout, DType compute = DType::kF32)
      : layout_(std::move(layout)), compute_(compute) {}

  DType compute() const { return compute_; }
  ParamLayout& layout() { return *layout_; }
  const ParamLayout& layout() const { return *layout_; }
  const std::shared_ptr<ParamLayout>& shared_layout() const { return layout_; }

  TensorId AddTensor(Tensor tensor);
  // A temporary in the compute type unless said otherwise.
  TensorId AddTemp(std::string name, Shape shape) {
    return AddTemp(std::move(name), std::move(shape), compute_);
  }
  TensorId AddTemp(std::string name, Shape shape, DType dtype);
  TensorId AddInput(std::string name, Shape shape, DType dtype);
  TensorId AddOutput(std::string name, Shape shape, DType dtype);
  // The parameter in fp32 (biases, normalisation) or in the compute type (convolution weights).
  TensorId AddParam(Param param, bool in_compute_type);
  TensorId AddState(StateVar state);
  // The whole flat buffer of a storage, as one vector. `slot` is for kOptimizer.
  TensorId WholeBuffer(Storage storage, int slot = 0);

  Op& AddOp(OpType type, std::vector<TensorId> inputs, std::vector<TensorId> outputs, OpAttrs attrs,
            std::string name);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor& tensor(TensorId id) const { return tensors_[static_cast<size_t>(id)]; }
  Tensor& tensor(TensorId id) { return tensors_[static_cast<size_t>(id)]; }
  const std::vector<Op>& ops() const { return ops_; }
  std::vector<Op>& ops() { return ops_; }
  // kNoTensor when there is none of that name with that storage.
  TensorId Find(const std::string& name, Storage storage) const;

  // Loss operations compute gradients themselves: the gradient of `tensor` has a contribution
  // `grad`.
  void SeedGradient(TensorId tensor, TensorId grad) { seeds_.emplace_back(tensor, grad); }
  const std::vector<std::pair<TensorId, TensorId>>& seeds() const { return seeds_; }

  // Of the forward graph from tensor `in` (excluded) to `out`: values in between that gradients
  // need are not kept but made again where they are needed (Chen et al. 2016, "Training Deep Nets
  // with Sublinear Memory Cost"). AppendBackward heeds it.
  struct Block {
    TensorId in = kNoTensor, out = kNoTensor;
  };
  void MakeAgain(TensorId in, TensorId out) { made_again_.push_back({in, out}); }
  const std::vector<Block>& made_again() const { return made_again_; }

  // Ops from this index on belong to the update and are skipped by a step that only accumulates.
  size_t update_begin() const { return update_begin_; }
  void BeginUpdate() { update_begin_ = ops_.size(); }
  // Other operations in place of all; `update_begin` as above. For passes.
  void ReplaceOps(std::vector<Op> ops, size_t update_begin) {
    ops_ = std::move(ops);
    update_begin_ = update_begin;
  }

  // May a device rewrite the whole step to make it faster (step_passes.h)? RunPasses decides.
  bool fusible() const { return fusible_; }
  void set_fusible(bool fusible) { fusible_ = fusible; }

 private:
  std::shared_ptr<ParamLayout> layout_;
  DType compute_;
  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::vector<std::pair<TensorId, TensorId>> seeds_;
  std::vector<Block> made_again_;
  size_t update_begin_ = SIZE_MAX;
  bool fusible_ = true;
};

}  // namespace xp::graph
