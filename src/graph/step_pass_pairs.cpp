// A block whose shortcut has a batch norm of its own: relu(norm_b(xb) + norm_a(xa)). Forward both
// are applied in one pass; backward one pass makes the sums of both.
#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

struct Pair {
  size_t a, b, grad_a, grad_b;
};

bool FindPair(const StepEdit& edit, size_t b, Pair* pair) {
  const Op& last = edit.op(b);
  if (!Has(last.inputs, 5) || edit.OnlyReader(last.inputs[5], OpType::kBatchNorm) != b) {
    return false;
  }
  const size_t a = edit.MadeBy(last.inputs[5], OpType::kBatchNorm);
  if (a == kNoOp) return false;
  const Op& first = edit.op(a);
  if (std::get<NormAttrs>(first.attrs).relu || Has(first.inputs, 5)) return false;
  *pair = {a, b, NormGradOf(edit, first), NormGradOf(edit, last)};
  if (pair->grad_a == kNoOp || pair->grad_b == kNoOp) return false;
  // What flows into the first is the masked gradient that the last one writes, and only there.
  const TensorId through = Get(edit.op(pair->grad_b).outputs, 3);
  return through != kNoTensor && edit.op(pair->grad_a).inputs[0] == through &&
         edit.OnlyReader(through, OpType::kBatchNormGrad) == pair->grad_a &&
         !Has(edit.op(pair->grad_a).inputs, 5);
}

void JoinForward(StepEdit& edit, const Pair& pair) {
  const Op a = edit.op(pair.a), b = edit.op(pair.b);
  std::vector<TensorId> in;
  for (const Op* norm : {&a, &b}) {
    in.insert(in.end(), {norm->inputs[0], norm->inputs[1], norm->inputs[2], norm->outputs[1],
                         norm->outputs[2]});
  }
  in.push_back(kNoTensor);
  edit.Replace(pair.a, {StatisticsOf(a)});
  edit.Replace(
      pair.b,
      {StatisticsOf(b),
       Op{OpType::kNormJoin, std::move(in), {b.outputs[0], b.outputs[3]}, b.attrs, b.name}});
}

void JoinBackward(StepEdit& edit, const Pair& pair) {
  Graph& g = edit.graph();
  const Op a = edit.op(pair.grad_a), b = edit.op(pair.grad_b);
  const TensorId masked = b.outputs[3];
  std::vector<TensorId> in(kSumsBranch[1] + 4, kNoTensor), out{masked};
  in[0] = Get(b.inputs, 5);
  in[kSumsDy] = b.inputs[0];
  size_t branch = 0;
  for (const Op* grad : {&a, &b}) {
    const size_t at = kSumsBranch[branch++];
    in[at] = grad->inputs[1];
    for (size_t i = 0; i < 3; ++i) in[at + 1 + i] = grad->inputs[2 + i];
    const TensorId factors =
        g.AddTemp(grad->name + ".factors", {3, g.tensor(masked).shape.back()}, DType::kF32);
    out.insert(out.end(), {Get(grad->outputs, 2), Get(grad->outputs, 1), factors});
  }
  auto apply = [&](const Op& grad, TensorId factors) {
    std::vector<Op> ops;
    if (Has(grad.outputs, 0)) {
      ops.push_back({OpType::kNormGradApply,
                     {masked, grad.inputs[1], factors},
                     {grad.outputs[0]},
                     NoAttrs{},
                     grad.name});
    }
    return ops;
  };
  edit.Replace(pair.grad_a, apply(a, out[3]));
  std::vector<Op> ops = apply(b, out[6]);
  ops.insert(ops.begin(), Op{OpType::kNormGradSums, std::move(in), out, NoAttrs{}, b.name});
  edit.Replace(pair.grad_b, std::move(ops));
}

}  // namespace

void JoinPairs(Graph& g) {
  StepEdit edit(g);
  for (size_t i = 0; i < g.ops().size(); ++i) {
    Pair pair{};
    if (g.ops()[i].type != OpType::kBatchNorm || !FindPair(edit, i, &pair)) continue;
    JoinForward(edit, pair);
    JoinBackward(edit, pair);
  }
  edit.Apply();
}

}  // namespace xp::graph
