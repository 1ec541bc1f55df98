#include "src/graph/step_edit.h"

namespace xp::graph {

StepEdit::StepEdit(Graph& g)
    : g_(g),
      producer_(g.tensors().size(), kNoOp),
      readers_(g.tensors().size()),
      replaced_(g.ops().size(), false),
      by_(g.ops().size()) {
  for (size_t i = 0; i < g.ops().size(); ++i) {
    for (TensorId id : g.ops()[i].outputs) {
      if (id == kNoTensor) continue;
      size_t& first = producer_[static_cast<size_t>(id)];
      if (first == kNoOp) first = i;
    }
    for (TensorId id : g.ops()[i].inputs) {
      if (id == kNoTensor) continue;
      auto& readers = readers_[static_cast<size_t>(id)];
      if (readers.empty() || readers.back() != i) readers.push_back(i);
    }
  }
}

size_t StepEdit::MadeBy(TensorId id, OpType type) const {
  const size_t i = Producer(id);
  return i != kNoOp && !replaced_[i] && op(i).type == type ? i : kNoOp;
}

size_t StepEdit::OnlyReader(TensorId id, OpType type) const {
  if (id == kNoTensor || g_.tensor(id).storage != Storage::kTemp) return kNoOp;
  const auto& readers = Readers(id);
  if (readers.size() != 1 || replaced_[readers[0]] || op(readers[0]).type != type) return kNoOp;
  return readers[0];
}

void StepEdit::Apply() {
  std::vector<Op> ops;
  size_t update_begin = SIZE_MAX;
  for (size_t i = 0; i < g_.ops().size(); ++i) {
    if (i == g_.update_begin()) update_begin = ops.size();
    if (!replaced_[i]) {
      ops.push_back(std::move(g_.ops()[i]));
      continue;
    }
    for (Op& op : by_[i]) ops.push_back(std::move(op));
  }
  if (g_.update_begin() != SIZE_MAX && update_begin == SIZE_MAX) update_begin = ops.size();
  g_.ReplaceOps(std::move(ops), update_begin);
}

size_t NormGradOf(const StepEdit& edit, const Op& norm) {
  for (size_t i : edit.Readers(norm.outputs[1])) {
    if (!edit.Replaced(i) && edit.op(i).type == OpType::kBatchNormGrad) return i;
  }
  return kNoOp;
}

bool LastIsHalf(const Graph& g, const Op& op, size_t first, size_t most) {
  size_t end = first;
  while (end < first + most && Has(op.inputs, end)) ++end;
  return end > first && g.tensor(op.inputs[end - 1]).shape != g.tensor(op.outputs[0]).shape;
}

Op StatisticsOf(const Op& norm) {
  Op statistics = norm;
  statistics.inputs[5] = kNoTensor;
  statistics.outputs[0] = statistics.outputs[3] = kNoTensor;
  std::get<NormAttrs>(statistics.attrs).relu = false;
  return statistics;
}

}  // namespace xp::graph
