// The stem: maxpool(relu(norm(x))), where nobody else reads the normalised map.
#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

struct Stem {
  size_t norm, pool, pool_grad, norm_grad;
};

// What the kernels do: 3 x 3 of stride 2 and padding 1, channels by eight.
bool Fits(const Graph& g, const Op& pool) {
  const auto& attrs = std::get<PoolAttrs>(pool.attrs);
  const Shape &x = g.tensor(pool.inputs[0]).shape, &y = g.tensor(pool.outputs[0]).shape;
  return attrs.kernel == 3 && attrs.stride == 2 && attrs.pad == 1 && x[3] % 8 == 0 &&
         y[1] == (x[1] + 1) / 2 && y[2] == (x[2] + 1) / 2;
}

bool FindStem(const StepEdit& edit, size_t pool, Stem* stem) {
  const Op& op = edit.op(pool);
  if (!Fits(edit.graph(), op) || !Has(op.outputs, 1)) return false;
  const size_t norm = edit.MadeBy(op.inputs[0], OpType::kBatchNorm);
  if (norm == kNoOp || edit.OnlyReader(op.inputs[0], OpType::kMaxPool) != pool) return false;
  const Op& made = edit.op(norm);
  if (!std::get<NormAttrs>(made.attrs).relu || Has(made.inputs, 5)) return false;
  *stem = {norm, pool, edit.OnlyReader(op.outputs[1], OpType::kMaxPoolGrad),
           NormGradOf(edit, made)};
  if (stem->pool_grad == kNoOp || stem->norm_grad == kNoOp) return false;
  const Op& grad = edit.op(stem->norm_grad);
  const TensorId between = edit.op(stem->pool_grad).outputs[0];
  return grad.inputs[0] == between && Has(grad.outputs, 0) && !Has(grad.outputs, 3) &&
         edit.OnlyReader(between, OpType::kBatchNormGrad) == stem->norm_grad;
}

void Join(StepEdit& edit, const Stem& stem) {
  Graph& g = edit.graph();
  const Op norm = edit.op(stem.norm), pool = edit.op(stem.pool);
  const Op norm_grad = edit.op(stem.norm_grad), pool_grad = edit.op(stem.pool_grad);
  edit.Replace(stem.norm, {StatisticsOf(norm)});
  edit.Replace(stem.pool,
               {{OpType::kNormPool,
                 {norm.inputs[0], norm.inputs[1], norm.inputs[2], norm.outputs[1], norm.outputs[2]},
                 pool.outputs,
                 pool.attrs,
                 pool.name}});
  const TensorId factors = g.AddTemp(norm_grad.name + ".factors",
                                     {3, g.tensor(norm.inputs[0]).shape.back()}, DType::kF32);
  const TensorId dy = pool_grad.inputs[0], argmax = pool_grad.inputs[1], x = norm.inputs[0];
  edit.Remove(stem.pool_grad);
  edit.Replace(stem.norm_grad,
               {{OpType::kNormPoolSums,
                 {dy, argmax, x, norm_grad.inputs[2], norm_grad.inputs[3], norm_grad.inputs[4]},
                 {Get(norm_grad.outputs, 2), Get(norm_grad.outputs, 1), factors},
                 pool.attrs,
                 norm_grad.name},
                {OpType::kNormPoolGrad,
                 {dy, argmax, x, factors},
                 {norm_grad.outputs[0]},
                 pool.attrs,
                 norm_grad.name}});
}

}  // namespace

void JoinPools(Graph& g) {
  StepEdit edit(g);
  for (size_t i = 0; i < g.ops().size(); ++i) {
    Stem stem{};
    if (g.ops()[i].type == OpType::kMaxPool && FindStem(edit, i, &stem)) Join(edit, stem);
  }
  edit.Apply();
}

}  // namespace xp::graph
