// Gram statistics: y = a W^T of a 1x1 convolution, normalised with the batch's statistics.
//   forward   conv -> y; statistics of y; norm
//          => conv -> y; statistics from a; norm
//   backward  sums over g and y; dy = A g + B y + C a channel; dw = dy^T a; da = dy W
//          => sums over g; dw and the factors from g^T a; da = g (A W) + a (W^T B W) + C W
// so that y isn't read and dy doesn't exist. Batch norm seen as a function of
// a's first two moments.
#include <algorithm>

#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

struct Match {
  size_t conv = kNoOp, norm = kNoOp, join = kNoOp;  // forward; join: where another pass split it
  size_t grad = kNoOp;                              // kBatchNormGrad, or
  size_t sums = kNoOp, apply = kNoOp;               // kNormGradSums and kNormGradApply
  size_t branch = 0;                                // of sums
  size_t wgrad = kNoOp, dgrad = kNoOp;
  TensorId dx = kNoTensor;
};

// What a^T a costs, rows x C x C, against what it spares, passes over rows x K: measured on an
// H200, C = 256 pays with K = 1024 (ResNet-50) and doesn't with K = 512 (ResNeXt-101, whole
// step 61.4 -> 59.2 ms without it).
constexpr int64_t kMostSquaresAnOutput = 100;

bool Widens(const Graph& g, const Op& conv, int64_t least_bytes) {
  const auto& attrs = std::get<ConvAttrs>(conv.attrs);
  const Tensor &w = g.tensor(conv.inputs[1]), &y = g.tensor(conv.outputs[0]);
  const bool parameter = w.storage == Storage::kParam || w.storage == Storage::kParamCompute;
  return parameter && !attrs.relu && attrs.groups == 1 && attrs.stride == std::array{1, 1} &&
         attrs.pad == std::array{0, 0} && w.shape[1] == 1 && w.shape[2] == 1 &&
         !Has(conv.inputs, 2) && w.shape[0] >= 2 * w.shape[3] &&
         w.shape[3] * w.shape[3] <= kMostSquaresAnOutput * w.shape[0] &&
         y.storage == Storage::kTemp &&
         y.dtype != DType::kF16 &&  // its range is too small for what mixes a
         static_cast<int64_t>(y.bytes()) >= least_bytes;
}

// Sorts the readers of y into their roles; false where there is any other.
bool FindReaders(const StepEdit& edit, TensorId y, Match* m) {
  for (size_t i : edit.Readers(y)) {
    if (edit.Replaced(i)) return false;
    const Op& op = edit.op(i);
    size_t* role = nullptr;
    if (op.type == OpType::kBatchNorm && op.inputs[0] == y && Get(op.inputs, 5) != y) {
      role = &m->norm;
    } else if (op.type == OpType::kNormJoin) {
      role = &m->join;
    } else if (op.type == OpType::kBatchNormGrad && op.inputs[1] == y && op.inputs[0] != y) {
      role = &m->grad;
    } else if (op.type == OpType::kNormGradSums) {
      role = &m->sums;
      m->branch = Get(op.inputs, kSumsBranch[0]) == y ? 0 : 1;
      if (Get(op.inputs, kSumsBranch[m->branch]) != y) return false;
    } else if (op.type == OpType::kNormGradApply && op.inputs[1] == y) {
      role = &m->apply;
    }
    if (role == nullptr || *role != kNoOp) return false;
    *role = i;
  }
  const bool split = m->join != kNoOp && m->sums != kNoOp && m->apply != kNoOp;
  const bool whole = m->join == kNoOp && m->sums == kNoOp && m->apply == kNoOp;
  return m->norm != kNoOp && (m->grad != kNoOp ? whole : split) &&
         Has(edit.op(m->norm).outputs, 0) == (m->grad != kNoOp);
}

bool FindMatch(const StepEdit& edit, size_t conv, Match* m) {
  const Op& op = edit.op(conv);
  m->conv = conv;
  if (!FindReaders(edit, op.outputs[0], m)) return false;
  m->dx = edit.op(m->grad != kNoOp ? m->grad : m->apply).outputs[0];
  if (m->dx == kNoTensor || edit.graph().tensor(m->dx).storage != Storage::kTemp) return false;
  for (size_t i : edit.Readers(m->dx)) {
    const Op& reader = edit.op(i);
    if (edit.Replaced(i)) return false;
    if (reader.type == OpType::kConv2dWgrad && reader.inputs[1] == m->dx && m->wgrad == kNoOp &&
        reader.inputs[0] == op.inputs[0]) {
      m->wgrad = i;
    } else if (reader.type == OpType::kConv2dDgrad && reader.inputs[0] == m->dx &&
               m->dgrad == kNoOp && reader.inputs[1] == op.inputs[1]) {
      m->dgrad = i;
    } else {
      return false;
    }
  }
  return m->wgrad != kNoOp || m->dgrad != kNoOp;
}

struct Made {
  TensorId centre, product;         // by kGramStatistics
  TensorId masked, dbias, dscale;   // g and its sum; the norm's gradients
  TensorId dw, scaled, mix, shift;  // by kGramGrad
};

TensorId F32(Graph& g, const std::string& name, Shape shape) {
  return g.AddTemp(name, std::move(shape), DType::kF32);
}

void Forward(StepEdit& edit, const Match& m, Made* made) {
  Graph& g = edit.graph();
  const Op conv = edit.op(m.conv), norm = edit.op(m.norm);
  const Shape w = g.tensor(conv.inputs[1]).shape;
  made->centre = F32(g, norm.name + ".centre", {w[3]});
  made->product = F32(g, norm.name + ".product", {w[0], w[3]});
  NormAttrs attrs = std::get<NormAttrs>(norm.attrs);
  const NormAttrs whole = attrs;
  attrs.relu = false;
  std::vector<Op> ops{{OpType::kGramStatistics,
                       {conv.inputs[0], conv.inputs[1], norm.inputs[3], norm.inputs[4]},
                       {norm.outputs[1], norm.outputs[2], norm.outputs[4], norm.outputs[5],
                        made->centre, made->product},
                       attrs,
                       norm.name}};
  if (m.grad != kNoOp) {
    std::vector<TensorId> in{norm.inputs[0], norm.inputs[1], norm.inputs[2], norm.outputs[1],
                             norm.outputs[2]};
    in.resize(10, kNoTensor);
    in.push_back(Get(norm.inputs, 5));
    ops.push_back({OpType::kNormJoin,
                   std::move(in),
                   {norm.outputs[0], Get(norm.outputs, 3)},
                   whole,
                   norm.name});
  }
  edit.Replace(m.norm, std::move(ops));
}

// The sums without y.
Op SumsOf(StepEdit& edit, const Match& m, Made* made) {
  Graph& g = edit.graph();
  if (m.sums != kNoOp) {
    Op sums = edit.op(m.sums);
    const size_t in = kSumsBranch[m.branch], out = kSumsBranchResult[m.branch];
    for (size_t i = 0; i < 4; ++i) sums.inputs[in + i] = kNoTensor;
    made->masked = sums.outputs[0];
    made->dscale = Get(sums.outputs, out + 1);
    if (sums.outputs[out] == kNoTensor) {
      sums.outputs[out] = F32(g, sums.name + ".dbias", {g.tensor(made->masked).shape.back()});
    }
    made->dbias = sums.outputs[out];
    sums.outputs[out + 1] = sums.outputs[out + 2] = kNoTensor;
    return sums;
  }
  const Op grad = edit.op(m.grad);
  const Tensor like = g.tensor(grad.inputs[0]);
  made->masked = Get(grad.outputs, 3);
  if (made->masked == kNoTensor) {
    made->masked = g.AddTemp(like.name + ".masked", like.shape, like.dtype);
  }
  made->dscale = Get(grad.outputs, 1);
  made->dbias = Get(grad.outputs, 2);
  if (made->dbias == kNoTensor) made->dbias = F32(g, grad.name + ".dbias", {like.shape.back()});
  return {OpType::kNormGradSums,
          {Get(grad.inputs, 5), grad.inputs[0], kNoTensor, kNoTensor},
          {made->masked, made->dbias},
          NoAttrs{},
          grad.name};
}

// da = g scaled + a mix + shift: two convolutions, and the sum of what they give.
void InputGradient(StepEdit& edit, const Match& m, const Made& made) {
  Graph& g = edit.graph();
  const Op dgrad = edit.op(m.dgrad);
  const Tensor da = g.tensor(dgrad.outputs[0]);
  const TensorId a = edit.op(m.conv).inputs[0];
  const TensorId direct = g.AddTemp(da.name + ".direct", da.shape, da.dtype);
  const TensorId mixed = g.AddTemp(da.name + ".mixed", da.shape, da.dtype);
  edit.Replace(
      m.dgrad,
      {{OpType::kConv2dDgrad, {made.masked, made.scaled}, {direct}, dgrad.attrs, dgrad.name},
       {OpType::kConv2d, {a, made.mix, made.shift}, {mixed}, ConvAttrs{}, dgrad.name + ".mix"},
       {OpType::kAdd, {direct, mixed}, {dgrad.outputs[0]}, ReluAttrs{}, dgrad.name}});
}

void Backward(StepEdit& edit, const Match& m, Made* made) {
  Graph& g = edit.graph();
  const Op conv = edit.op(m.conv), norm = edit.op(m.norm);
  const Tensor w = g.tensor(conv.inputs[1]);
  const Op sums = SumsOf(edit, m, made);
  made->dw = m.wgrad != kNoOp ? edit.op(m.wgrad).outputs[0] : kNoTensor;
  if (made->dscale == kNoTensor) made->dscale = F32(g, norm.name + ".dscale", {w.shape[0]});
  made->scaled = g.AddTemp(norm.name + ".scaled", w.shape, w.dtype);
  made->mix = g.AddTemp(norm.name + ".mix", {w.shape[3], 1, 1, w.shape[3]}, w.dtype);
  made->shift = F32(g, norm.name + ".shift", {w.shape[3]});
  Op gram{OpType::kGramGrad,
          {made->masked, conv.inputs[0], conv.inputs[1], made->product, made->centre, made->dbias,
           norm.inputs[1], norm.outputs[1], norm.outputs[2]},
          {made->dw, made->dscale, made->scaled, made->mix, made->shift},
          NoAttrs{},
          sums.name};
  if (m.sums != kNoOp) {
    edit.Replace(m.sums, {sums});
    edit.Replace(m.apply, {gram});
  } else {
    edit.Replace(m.grad, {sums, gram});
  }
  if (m.wgrad != kNoOp) edit.Remove(m.wgrad);
  if (m.dgrad != kNoOp) InputGradient(edit, m, *made);
}

// A sum of which one term is itself a sum that nobody else reads becomes one.
void FlattenSums(Graph& g) {
  StepEdit edit(g);
  for (size_t i = 0; i < g.ops().size(); ++i) {
    const Op& op = g.ops()[i];
    if (op.type != OpType::kAdd) continue;
    Op flat = op;
    flat.inputs.clear();
    for (TensorId id : op.inputs) {
      const size_t inner = edit.MadeBy(id, OpType::kAdd);
      if (inner == kNoOp || edit.OnlyReader(id, OpType::kAdd) != i ||
          std::get<ReluAttrs>(edit.op(inner).attrs).relu) {
        flat.inputs.push_back(id);
        continue;
      }
      const auto& terms = edit.op(inner).inputs;
      flat.inputs.insert(flat.inputs.end(), terms.begin(), terms.end());
      edit.Remove(inner);
    }
    if (flat.inputs.size() != op.inputs.size()) edit.Replace(i, {std::move(flat)});
  }
  edit.Apply();
}

}  // namespace

void UseGram(Graph& g, int64_t least_bytes) {
  while (true) {  // two branches of one block share the op that makes their sums
    StepEdit edit(g);
    bool any = false;
    for (size_t i = 0; i < g.ops().size(); ++i) {
      const Op& op = g.ops()[i];
      Match match;
      if (op.type != OpType::kConv2d || !Widens(g, op, least_bytes)) continue;
      if (!FindMatch(edit, i, &match)) continue;
      Made made{};
      Forward(edit, match, &made);
      Backward(edit, match, &made);
      any = true;
    }
    edit.Apply();
    if (!any) break;
  }
  FlattenSums(g);
}

}  // namespace xp::graph
