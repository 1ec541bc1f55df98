#include "exp/train/update.h"

#include <vector>

#include "exp/config/reader.h"
#include "exp/train/checkpoint.h"

namespace xp::train {
namespace {

using graph::DType;
using graph::Graph;
using graph::kNoTensor;
using graph::OpType;
using graph::Param;
using graph::Segment;
using graph::Storage;
using graph::TensorId;

// May b's elements follow a's, with but a gap of the flat buffers between?
bool Continues(const Segment& a, const Segment& b) {
  int64_t step = b.offset - a.offset;
  return a.lr_multiplier == b.lr_multiplier && a.decay == b.decay &&
         a.compute_grad == b.compute_grad && step - a.count < graph::kParamAlignment &&
         (a.compute_grad || b.grad_offset - a.grad_offset == step);
}

// One segment for each trained parameter that the losses reach; neighbours with one rule are
// joined, except for LARS, whose rate is a layer's own.
std::vector<Segment> Segments(const Graph& g, const OptimizerOptions& o) {
  std::vector<Segment> segments;
  for (const Param& p : g.layout().params()) {
    bool compute = g.Find(p.name, Storage::kGradCompute) != kNoTensor;
    TensorId grad = g.Find(p.name, Storage::kGrad);
    if (!compute && grad == kNoTensor) continue;
    ParamMultipliers multipliers = MultipliersOf(p, o.groups);
    Segment s{p.offset,
              p.elements(),
              static_cast<float>(multipliers.lr),
              static_cast<float>(o.weight_decay * multipliers.decay),
              compute,
              compute ? 0 : g.tensor(grad).offset};
    if (o.kind != OptimizerKind::kLars && !segments.empty() && Continues(segments.back(), s)) {
      segments.back().count = s.offset + s.count - segments.back().offset;
    } else {
      segments.push_back(s);
    }
  }
  return segments;
}

// The whole buffers that the update reads and writes.
struct Buffers {
  TensorId grad, grad_compute, param, param_compute, accumulated;
};

Buffers WholeBuffers(Graph& g, const OptimizerOptions& o) {
  bool cast = g.compute() != DType::kF32;
  return {g.WholeBuffer(Storage::kGrad), cast ? g.WholeBuffer(Storage::kGradCompute) : kNoTensor,
          g.WholeBuffer(Storage::kParam), cast ? g.WholeBuffer(Storage::kParamCompute) : kNoTensor,
          o.cumulative_iters > 1 ? g.WholeBuffer(Storage::kAccumulated) : kNoTensor};
}

// The factor for the gradients, or none when it would always be 1.
TensorId AppendClip(Graph& g, const OptimizerOptions& o, const Buffers& b,
                    const std::vector<Segment>& segments) {
  bool scaled = g.compute() == DType::kF16;
  if (!scaled && o.max_norm == 0 && o.max_value == 0 && o.cumulative_iters == 1) return kNoTensor;
  TensorId scale =
      scaled ? g.AddState({"loss_scale", {1}, 65536}) : g.AddState({"unit_scale", {1}, 1});
  TensorId factor = g.AddTemp("grad_factor", {1}, DType::kF32);
  TensorId norm = g.AddOutput("grad_norm", {1}, DType::kF32);
  graph::ClipAttrs attrs{segments, static_cast<float>(o.max_norm), static_cast<float>(o.max_value),
                         1.0f / static_cast<float>(o.cumulative_iters), o.cumulative_iters > 1};
  g.AddOp(OpType::kClipGrad, {b.grad, b.grad_compute, scale, b.accumulated}, {factor, norm}, attrs,
          "clip_grad");
  if (scaled) {
    TensorId good = g.AddState({"loss_scale.good_steps", {1}, 0});
    g.AddOp(OpType::kUpdateLossScale, {factor, scale, good}, {scale, good}, graph::LossScaleAttrs{},
            "loss_scale");
  }
  return factor;
}

bool HasTwoMoments(const OptimizerOptions& o) {
  return o.kind == OptimizerKind::kAdam || o.kind == OptimizerKind::kAdamW;
}

// The average lies in the last slot.
void AppendEma(Graph& g, const OptimizerOptions& o, TensorId param) {
  if (o.ema_momentum == 0) return;
  TensorId ema = g.WholeBuffer(Storage::kOptimizer, OptimizerSlotCount(o) - 1);
  TensorId momentum = g.AddInput("ema_momentum", {1}, DType::kF32);
  g.AddOp(OpType::kEma, {param, ema, momentum}, {ema}, graph::NoAttrs{}, "ema");
}

}  // namespace

std::vector<std::string> OptimizerSlotNames(const OptimizerOptions& o) {
  std::vector<std::string> names = OptimizerSlots(HasTwoMoments(o) ? "adam" : "sgd");
  if (o.ema_momentum > 0) names.emplace_back(kEmaSlot);
  return names;
}

int OptimizerSlotCount(const OptimizerOptions& o) {
  return static_cast<int>(OptimizerSlotNames(o).size());
}

void AppendUpdate(Graph& g, const OptimizerOptions& o) {
  TensorId lr = g.AddInput("lr", {1}, DType::kF32);
  Buffers b = WholeBuffers(g, o);
  CheckRules(g.layout(), o.groups);
  std::vector<Segment> segments = Segments(g, o);
  if (o.cumulative_iters > 1) {
    TensorId first = g.AddInput("first", {1}, DType::kI32);
    graph::UpdateAttrs attrs{.segments = segments};
    TensorId weight = g.AddInput("weight", {1}, DType::kF32);
    g.AddOp(OpType::kAccumulate, {b.grad, b.grad_compute, b.accumulated, first, weight},
            {b.accumulated}, attrs, "accumulate");
  }
  g.BeginUpdate();
  TensorId factor = AppendClip(g, o, b, segments);
  graph::UpdateAttrs attrs;
  attrs.segments = segments;
  attrs.momentum = static_cast<float>(o.momentum);
  attrs.nesterov = o.nesterov;
  attrs.beta1 = static_cast<float>(o.beta1);
  attrs.beta2 = static_cast<float>(o.beta2);
  attrs.eps = static_cast<float>(o.eps);
  attrs.decoupled = o.kind == OptimizerKind::kAdamW;
  attrs.trust = static_cast<float>(o.trust);
  attrs.use_accumulated = o.cumulative_iters > 1;
  attrs.max_value = static_cast<float>(o.max_value);
  TensorId slot0 = g.WholeBuffer(Storage::kOptimizer, 0);
  std::vector<TensorId> in{b.grad, b.grad_compute, b.accumulated, b.param, slot0};
  if (HasTwoMoments(o)) {
    TensorId slot1 = g.WholeBuffer(Storage::kOptimizer, 1);
    TensorId step = g.AddState({"optimizer.step", {1}, 0});
    in.insert(in.end(), {slot1, step, lr, factor});
    g.AddOp(OpType::kAdam, in, {b.param, slot0, slot1, step, b.param_compute}, attrs, "adam");
  } else {
    in.insert(in.end(), {lr, factor});
    OpType type = o.kind == OptimizerKind::kLars ? OpType::kLars : OpType::kSgd;
    g.AddOp(type, in, {b.param, slot0, b.param_compute}, attrs, "sgd");
  }
  AppendEma(g, o, b.param);
}

namespace {

// Only what the type has is read: the rest of `optimizer` shows as unused.
void ReadMomentum(const config::Reader& config, OptimizerOptions* o) {
  o->momentum = config.Double("optimizer.momentum", 0);
  o->nesterov = config.Bool("optimizer.nesterov", false);
  if (o->nesterov && !(o->momentum > 0)) {
    config.Bad("optimizer.nesterov", "is given without momentum", "`optimizer.momentum` above 0");
  }
  if (config.Double("optimizer.dampening", 0) != 0) {
    config.Bad("optimizer.dampening", "is not 0", "0: momentum is undamped", "delete it");
  }
  if (o->kind != OptimizerKind::kLars) return;
  o->trust = config.Double("optimizer.trust_coefficient", 0.001);
  o->eps = config.Double("optimizer.eps", 1e-8);
}

void ReadMoments(const config::Reader& config, OptimizerOptions* o) {
  std::vector<double> betas = config.Doubles("optimizer.betas", {0.9, 0.999});
  if (betas.size() != 2) config.Bad("optimizer.betas", "must have 2 values", "[0.9, 0.999]");
  o->beta1 = betas[0];
  o->beta2 = betas[1];
  o->eps = config.Double("optimizer.eps", 1e-8);
}

void ReadGradients(const config::Reader& config, OptimizerOptions* o) {
  config.Has("optimizer_config.grad_clip");  // null: none
  o->max_norm = config.Double("optimizer_config.grad_clip.max_norm", 0);
  o->max_value = config.Double("optimizer_config.grad_clip.max_value", 0);
  if (config.Double("optimizer_config.grad_clip.norm_type", 2) != 2) {
    config.Bad("optimizer_config.grad_clip.norm_type", "is not 2", "2: the Euclidean norm",
               "delete it");
  }
  o->cumulative_iters = config.IntWithin("optimizer_config.cumulative_iters", 1, 1, 100000);
}

}  // namespace

OptimizerOptions ReadOptimizer(const config::Reader& config) {
  OptimizerOptions o;
  std::string type = config.Choice("optimizer.type", {"SGD", "Adam", "AdamW", "LARS"}, "SGD");
  o.kind = type == "SGD"     ? OptimizerKind::kSgd
           : type == "Adam"  ? OptimizerKind::kAdam
           : type == "AdamW" ? OptimizerKind::kAdamW
                             : OptimizerKind::kLars;
  o.lr = config.Double("optimizer.lr");
  if (!(o.lr >= 0)) config.Bad("optimizer.lr", "is not a learning rate", "a number >= 0");
  o.weight_decay = config.Double("optimizer.weight_decay", type == "AdamW" ? 0.01 : 0);
  HasTwoMoments(o) ? ReadMoments(config, &o) : ReadMomentum(config, &o);
  o.groups = ReadParamGroups(config);
  ReadGradients(config, &o);
  o.ema_momentum = config.Double("ema.momentum", 0);
  if (!(o.ema_momentum >= 0 && o.ema_momentum < 1)) {
    config.Bad("ema.momentum", "is out of range", "a number from 0 (no average), below 1");
  }
  return o;
}

}  // namespace xp::train
