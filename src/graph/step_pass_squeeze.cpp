// Squeeze-and-excitation after a batch norm: z = norm(x) goes into a pool, whose result through two
// linear layers gates z; the gated map is added to the shortcut. z and the gated map are never
// made: the pool's result follows from x's mean over each image, and the gate is applied with the
// norm.
#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

struct Squeeze {
  size_t norm, pool, scale;          // forward: batch norm, its two readers
  size_t add = kNoOp, relu = kNoOp;  // an identity shortcut: relu(gated + shortcut), or
  size_t last = kNoOp;               // a batch norm that takes the gated map as its residual
  size_t relu_grad = kNoOp;          // backward: of the first kind
  size_t scale_grad, pool_grad, sum, norm_grad;
  TensorId gated, through;  // the gated map, and what flows into it
};

size_t ReaderOf(const StepEdit& edit, TensorId id, OpType type) {
  for (size_t i : edit.Readers(id)) {
    if (!edit.Replaced(i) && edit.op(i).type == type) return i;
  }
  return kNoOp;
}

bool FindForward(const StepEdit& edit, size_t scale, Squeeze* s) {
  const Graph& g = edit.graph();
  const Op& gate = edit.op(scale);
  s->scale = scale;
  s->gated = gate.outputs[0];
  const TensorId z = gate.inputs[0];
  if (g.tensor(z).shape.back() % 8 != 0 || g.tensor(z).storage != Storage::kTemp) return false;
  s->norm = edit.MadeBy(z, OpType::kBatchNorm);
  if (s->norm == kNoOp) return false;
  const Op& norm = edit.op(s->norm);
  if (std::get<NormAttrs>(norm.attrs).relu || Has(norm.inputs, 5)) return false;
  s->pool = ReaderOf(edit, z, OpType::kGlobalAvgPool);
  s->scale_grad = ReaderOf(edit, z, OpType::kScaleChannelsGrad);
  if (s->pool == kNoOp || s->scale_grad == kNoOp || edit.Readers(z).size() != 3) return false;
  s->last = edit.OnlyReader(s->gated, OpType::kBatchNorm);
  if (s->last != kNoOp) return Get(edit.op(s->last).inputs, 5) == s->gated;
  s->add = edit.OnlyReader(s->gated, OpType::kAdd);
  if (s->add == kNoOp) return false;
  const Op& add = edit.op(s->add);
  if (add.inputs.size() != 2 || std::get<ReluAttrs>(add.attrs).relu) return false;
  s->relu = edit.OnlyReader(add.outputs[0], OpType::kRelu);
  return s->relu != kNoOp;
}

bool FindBackward(const StepEdit& edit, Squeeze* s) {
  const Op& scale_grad = edit.op(s->scale_grad);
  s->through = scale_grad.inputs[0];
  s->pool_grad = kNoOp;
  const TensorId z = edit.op(s->norm).outputs[0];
  s->norm_grad = NormGradOf(edit, edit.op(s->norm));
  if (s->norm_grad == kNoOp) return false;
  const Op& norm_grad = edit.op(s->norm_grad);
  s->sum = edit.MadeBy(norm_grad.inputs[0], OpType::kAdd);
  if (s->sum == kNoOp || !Has(norm_grad.outputs, 0) || Has(norm_grad.inputs, 5) ||
      edit.OnlyReader(norm_grad.inputs[0], OpType::kBatchNormGrad) != s->norm_grad) {
    return false;
  }
  const Op& sum = edit.op(s->sum);
  if (sum.inputs.size() != 2) return false;
  for (TensorId id : sum.inputs) {
    if (id == scale_grad.outputs[0]) continue;
    s->pool_grad = edit.MadeBy(id, OpType::kGlobalAvgPoolGrad);
    if (edit.OnlyReader(id, OpType::kAdd) != s->sum) return false;
  }
  if (s->pool_grad == kNoOp || edit.OnlyReader(scale_grad.outputs[0], OpType::kAdd) != s->sum ||
      edit.graph().tensor(z).dtype != edit.graph().tensor(s->through).dtype) {
    return false;
  }
  if (s->last != kNoOp) return true;
  s->relu_grad = edit.MadeBy(s->through, OpType::kReluGrad);
  return s->relu_grad != kNoOp && edit.op(s->relu_grad).inputs[1] == edit.op(s->relu).outputs[0];
}

// Norm, pool, gate, addition and ReLU. Returns the ReLU's mask where a new one is made.
TensorId Forward(StepEdit& edit, const Squeeze& s, TensorId image_mean) {
  Graph& g = edit.graph();
  const Op norm = edit.op(s.norm), pool = edit.op(s.pool), scale = edit.op(s.scale);
  edit.Replace(s.norm,
               {{OpType::kSqueezeStatistics,
                 {norm.inputs[0], norm.inputs[1], norm.inputs[2], norm.inputs[3], norm.inputs[4]},
                 {norm.outputs[1], norm.outputs[2], norm.outputs[4], norm.outputs[5], image_mean,
                  pool.outputs[0]},
                 norm.attrs,
                 norm.name}});
  edit.Remove(s.pool);
  edit.Remove(s.scale);
  std::vector<TensorId> in{norm.inputs[0], norm.inputs[1], norm.inputs[2], norm.outputs[1],
                           norm.outputs[2]};
  if (s.last != kNoOp) {
    const Op last = edit.op(s.last);
    in.insert(in.end(), {last.inputs[0], last.inputs[1], last.inputs[2], last.outputs[1],
                         last.outputs[2], kNoTensor, scale.inputs[1]});
    edit.Replace(s.last, {StatisticsOf(last), Op{OpType::kNormJoin,
                                                 std::move(in),
                                                 {last.outputs[0], Get(last.outputs, 3)},
                                                 last.attrs,
                                                 last.name}});
    return kNoTensor;
  }
  const Op add = edit.op(s.add), relu = edit.op(s.relu);
  in.resize(10, kNoTensor);
  in.push_back(add.inputs[add.inputs[0] == s.gated ? 1 : 0]);
  in.push_back(scale.inputs[1]);
  const TensorId mask =
      g.AddTemp(relu.name + ".mask", {(g.tensor(relu.outputs[0]).elements() + 7) / 8}, DType::kU8);
  NormAttrs attrs = std::get<NormAttrs>(norm.attrs);
  attrs.relu = true;
  edit.Remove(s.add);
  edit.Replace(s.relu,
               {{OpType::kNormJoin, std::move(in), {relu.outputs[0], mask}, attrs, relu.name}});
  return mask;
}

void Backward(StepEdit& edit, const Squeeze& s, TensorId mask, TensorId image_mean) {
  Graph& g = edit.graph();
  const Op norm = edit.op(s.norm), norm_grad = edit.op(s.norm_grad);
  const Op scale_grad = edit.op(s.scale_grad), pool_grad = edit.op(s.pool_grad);
  const Shape map = g.tensor(norm.inputs[0]).shape;
  const auto f32 = [&](const char* what, Shape shape) {
    return g.AddTemp(norm_grad.name + what, std::move(shape), DType::kF32);
  };
  const TensorId sums = f32(".sums", {2, map[0], map[3]});
  const TensorId slopes = f32(".slopes", {map[0], map[3]});
  const TensorId shifts = f32(".shifts", {map[0], map[3]}), common = f32(".common", {map[3]});
  Op reduce{OpType::kSqueezeSums,
            {kNoTensor, s.through, kNoTensor, kNoTensor, norm.inputs[0], norm.inputs[1],
             norm.inputs[2], norm.outputs[1], norm.outputs[2]},
            {kNoTensor, sums, scale_grad.outputs[1]},
            NoAttrs{},
            scale_grad.name};
  if (s.relu_grad != kNoOp) {
    // The masked gradient goes to the shortcut too: made here, before anybody reads it.
    reduce.inputs[0] = mask;
    reduce.inputs[1] = edit.op(s.relu_grad).inputs[0];
    reduce.outputs[0] = s.through;
    edit.Replace(s.relu_grad, {reduce});
    edit.Remove(s.scale_grad);
  } else {
    edit.Replace(s.scale_grad, {reduce});
  }
  edit.Remove(s.pool_grad);
  edit.Remove(s.sum);
  edit.Replace(s.norm_grad,
               {{OpType::kSqueezeFactors,
                 {sums, edit.op(s.scale).inputs[1], pool_grad.inputs[0], image_mean, norm.inputs[1],
                  norm.outputs[1], norm.outputs[2], norm.inputs[0]},
                 {Get(norm_grad.outputs, 1), Get(norm_grad.outputs, 2), slopes, shifts, common},
                 NoAttrs{},
                 norm_grad.name},
                {OpType::kSqueezeApply,
                 {s.through, norm.inputs[0], slopes, shifts, common},
                 {norm_grad.outputs[0]},
                 NoAttrs{},
                 norm_grad.name}});
}

}  // namespace

void JoinSqueezes(Graph& g) {
  StepEdit edit(g);
  for (size_t i = 0; i < g.ops().size(); ++i) {
    Squeeze s{};
    if (g.ops()[i].type != OpType::kScaleChannels) continue;
    if (!FindForward(edit, i, &s) || !FindBackward(edit, &s)) continue;
    const Shape map = g.tensor(g.ops()[s.norm].inputs[0]).shape;
    const TensorId image_mean =
        g.AddTemp(g.ops()[s.norm].name + ".image_mean", {map[0], map[3]}, DType::kF32);
    const TensorId mask = Forward(edit, s, image_mean);
    Backward(edit, s, mask, image_mean);
  }
  edit.Apply();
}

}  // namespace xp::graph
