#include "exp/graph/graph.h"

#include <utility>

namespace xp::graph {

TensorId Graph::AddTensor(Tensor tensor) {
  tensors_.push_back(std::move(tensor));
  return static_cast<TensorId>(tensors_.size() - 1);
}

TensorId Graph::AddTemp(std::string name, Shape shape, DType dtype) {
  return AddTensor({std::move(name), dtype, std::move(shape), Storage::kTemp});
}

TensorId Graph::AddInput(std::string name, Shape shape, DType dtype) {
  return AddTensor({std::move(name), dtype, std::move(shape), Storage::kInput});
}

TensorId Graph::AddOutput(std::string name, Shape shape, DType dtype) {
  return AddTensor({std::move(name), dtype, std::move(shape), Storage::kOutput});
}

TensorId Graph::AddParam(Param param, bool in_compute_type) {
  int index = layout_->AddParam(std::move(param));
  const Param& p = layout_->params()[static_cast<size_t>(index)];
  bool cast = in_compute_type && compute_ != DType::kF32;
  Storage storage = cast ? Storage::kParamCompute : Storage::kParam;
  if (TensorId known = Find(p.name, storage); known != kNoTensor) return known;
  return AddTensor({p.name, cast ? compute_ : DType::kF32, p.shape, storage, p.offset});
}

TensorId Graph::AddState(StateVar state) {
  int index = layout_->AddState(std::move(state));
  const StateVar& s = layout_->states()[static_cast<size_t>(index)];
  if (TensorId known = Find(s.name, Storage::kState); known != kNoTensor) return known;
  return AddTensor({s.name, DType::kF32, s.shape, Storage::kState, s.offset});
}

TensorId Graph::WholeBuffer(Storage storage, int slot) {
  bool compute = storage == Storage::kParamCompute || storage == Storage::kGradCompute;
  bool packed = storage == Storage::kGrad && compute_ != DType::kF32;
  int64_t elements = packed ? layout_->grad_elements() : layout_->param_elements();
  return AddTensor({"", compute ? compute_ : DType::kF32, {elements}, storage, slot * elements});
}

Op& Graph::AddOp(OpType type, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
                 OpAttrs attrs, std::string name) {
  ops_.push_back({type, std::move(inputs), std::move(outputs), std::move(attrs), std::move(name)});
  return ops_.back();
}

TensorId Graph::Find(const std::string& name, Storage storage) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].storage == storage && tensors_[i].name == name) return static_cast<TensorId>(i);
  }
  return kNoTensor;
}

}  // namespace xp::graph
