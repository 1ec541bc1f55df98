// Sums of gradients into the batch norms that read them.
#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

// The op that adds up what the gradient op reads as dy, if it can take the sum over, else kNoOp.
size_t SumFor(const StepEdit& edit, TensorId dy, OpType reader, size_t free_slots) {
  const size_t add = edit.MadeBy(dy, OpType::kAdd);
  if (add == kNoOp || edit.OnlyReader(dy, reader) == kNoOp) return kNoOp;
  const Op& sum = edit.op(add);
  if (std::get<ReluAttrs>(sum.attrs).relu || sum.inputs.size() > free_slots) return kNoOp;
  const Tensor& t = edit.graph().tensor(dy);
  for (TensorId id : sum.inputs) {
    if (edit.graph().tensor(id).dtype != t.dtype) return kNoOp;
  }
  return add;
}

void SplitNormGrad(StepEdit& edit, size_t index, size_t add) {
  const Op grad = edit.op(index), sum = edit.op(add);
  Graph& g = edit.graph();
  const Tensor like = g.tensor(grad.inputs[0]);
  const TensorId x = grad.inputs[1], dx = Get(grad.outputs, 0);
  TensorId masked = Get(grad.outputs, 3);
  if (masked == kNoTensor) masked = g.AddTemp(like.name + ".masked", like.shape, like.dtype);
  const TensorId factors = g.AddTemp(grad.name + ".factors", {3, like.shape.back()}, DType::kF32);

  std::vector<TensorId> in(kSumsBranch[0] + 4, kNoTensor);
  in[0] = Get(grad.inputs, 5);
  for (size_t i = 0; i < sum.inputs.size(); ++i) in[kSumsDy + i] = sum.inputs[i];
  in[kSumsBranch[0]] = x;
  for (size_t i = 0; i < 3; ++i) in[kSumsBranch[0] + 1 + i] = grad.inputs[2 + i];
  std::vector<Op> ops;
  ops.push_back({OpType::kNormGradSums,
                 std::move(in),
                 {masked, Get(grad.outputs, 2), Get(grad.outputs, 1), factors},
                 NoAttrs{},
                 grad.name});
  if (dx != kNoTensor) {
    ops.push_back({OpType::kNormGradApply, {masked, x, factors}, {dx}, NoAttrs{}, grad.name});
  }
  edit.Replace(index, std::move(ops));
  edit.Remove(add);
}

// kNormGradSums with one dy takes those of the sum instead.
void ExtendSums(StepEdit& edit, size_t index, size_t add) {
  Op sums = edit.op(index);
  const Op& sum = edit.op(add);
  for (size_t i = 0; i < sum.inputs.size(); ++i) sums.inputs[kSumsDy + i] = sum.inputs[i];
  edit.Replace(index, {std::move(sums)});
  edit.Remove(add);
}

}  // namespace

void FoldSums(Graph& g) {
  StepEdit edit(g);
  for (size_t i = 0; i < g.ops().size(); ++i) {
    const Op& op = g.ops()[i];
    if (op.type == OpType::kBatchNormGrad) {
      const size_t add = SumFor(edit, op.inputs[0], op.type, kSumsMostDys);
      if (add != kNoOp) SplitNormGrad(edit, i, add);
    } else if ((op.type == OpType::kNormGradSums || op.type == OpType::kSqueezeSums) &&
               !Has(op.inputs, kSumsDy + 1)) {
      const size_t add = SumFor(edit, op.inputs[kSumsDy], op.type, kSumsMostDys);
      if (add != kNoOp) ExtendSums(edit, i, add);
    }
  }
  edit.Apply();
}

}  // namespace xp::graph
