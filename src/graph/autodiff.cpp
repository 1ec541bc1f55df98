#include "exp/graph/autodiff.h"

#include <stdexcept>
#include <utility>

#include "src/graph/make_again.h"

namespace xp::graph {
namespace {

// Walks the forward ops backwards; an op's outputs have all their gradient contributions by then.
class Differentiator {
 public:
  explicit Differentiator(Graph& g) : g_(g), grads_(g.tensors().size()) { FindDependents(); }

  void Run() {
    for (auto [tensor, grad] : g_.seeds()) Contribute(tensor, grad);
    size_t forward_ops = g_.ops().size();
    for (size_t i = forward_ops; i-- > 0;) Differentiate(i);
    FinishParams();
  }

 private:
  // A tensor needs a gradient when a trainable parameter lies below it.
  void FindDependents() {
    needs_.assign(g_.tensors().size(), false);
    for (size_t i = 0; i < g_.tensors().size(); ++i) needs_[i] = IsTrainable(g_.tensors()[i]);
    for (const Op& op : g_.ops()) {
      if (!Differentiable(op.type)) continue;
      bool any = false;
      for (TensorId id : op.inputs) any = any || Needs(id);
      if (any && op.outputs[0] != kNoTensor) needs_[static_cast<size_t>(op.outputs[0])] = true;
    }
  }

  bool IsTrainable(const Tensor& t) const {
    if (t.storage != Storage::kParam && t.storage != Storage::kParamCompute) return false;
    int index = g_.layout().FindParam(t.name);
    return index >= 0 && g_.layout().params()[static_cast<size_t>(index)].trainable;
  }

  static bool Differentiable(OpType type) {
    switch (type) {
      case OpType::kAdd:
      case OpType::kRelu:
      case OpType::kSigmoid:
      case OpType::kConv2d:
      case OpType::kLinear:
      case OpType::kBatchNorm:
      case OpType::kAffine:
      case OpType::kMaxPool:
      case OpType::kGlobalAvgPool:
      case OpType::kUpsampleAdd:
      case OpType::kSubsample:
      case OpType::kScaleChannels:
      case OpType::kL2Norm:
      case OpType::kRoiAlign:
        return true;
      default:
        return false;
    }
  }

  bool Needs(TensorId id) const {
    return id != kNoTensor && static_cast<size_t>(id) < needs_.size() &&
           needs_[static_cast<size_t>(id)];
  }

  void Contribute(TensorId tensor, TensorId grad) {
    if (Needs(tensor)) grads_[static_cast<size_t>(tensor)].push_back(grad);
  }

  // A new gradient tensor for `of` if it needs one; its contribution is noted.
  TensorId NewGrad(TensorId of) {
    if (!Needs(of)) return kNoTensor;
    Tensor t = g_.tensor(of);
    TensorId grad = g_.AddTemp("d " + t.name, t.shape, t.dtype);
    Contribute(of, grad);
    return grad;
  }

  // The whole gradient of a tensor, summed when there are several contributions.
  TensorId TotalGrad(TensorId of) {
    auto& parts = grads_[static_cast<size_t>(of)];
    if (parts.empty()) return kNoTensor;
    if (parts.size() > 1) {
      Tensor t = g_.tensor(of);
      TensorId sum = g_.AddTemp("d " + t.name, t.shape, t.dtype);
      g_.AddOp(OpType::kAdd, parts, {sum}, ReluAttrs{}, "d " + t.name);
      parts = {sum};
    }
    return parts[0];
  }

  void Differentiate(size_t index) {
    Op op = g_.ops()[index];  // a copy: AddOp moves the list
    if (!Differentiable(op.type) || !Needs(op.outputs[0])) return;
    TensorId dy = TotalGrad(op.outputs[0]);
    if (dy == kNoTensor) return;
    switch (op.type) {
      case OpType::kConv2d:
        return Conv(op, dy);
      case OpType::kLinear:
        return Linear(op, dy);
      case OpType::kBatchNorm:
        return BatchNorm(index, op, dy);
      case OpType::kAffine:
        return Affine(index, op, dy);
      case OpType::kMaxPool:
        return MaxPool(index, op, dy);
      case OpType::kAdd:
        for (TensorId x : op.inputs) Contribute(x, dy);
        return;
      case OpType::kUpsampleAdd:
        Contribute(op.inputs[1], dy);
        return Unary(op, OpType::kUpsampleGrad, {dy}, op.inputs[0]);
      case OpType::kRelu:
        return Unary(op, OpType::kReluGrad, {dy, op.outputs[0]}, op.inputs[0]);
      case OpType::kSigmoid:
        return Unary(op, OpType::kSigmoidGrad, {dy, op.outputs[0]}, op.inputs[0]);
      case OpType::kGlobalAvgPool:
        return Unary(op, OpType::kGlobalAvgPoolGrad, {dy}, op.inputs[0]);
      case OpType::kSubsample:
        return Unary(op, OpType::kSubsampleGrad, {dy}, op.inputs[0]);
      case OpType::kScaleChannels:
        return Binary(op, OpType::kScaleChannelsGrad, dy);
      case OpType::kL2Norm:
        return Binary(op, OpType::kL2NormGrad, dy);
      case OpType::kRoiAlign:
        return RoiAlign(op, dy);
      default:
        throw std::logic_error(std::string("no gradient for ") + OpName(op.type));
    }
  }

  void Unary(const Op& op, OpType type, std::vector<TensorId> inputs, TensorId x) {
    TensorId dx = NewGrad(x);
    if (dx != kNoTensor) g_.AddOp(type, std::move(inputs), {dx}, op.attrs, "d " + op.name);
  }

  void Binary(const Op& op, OpType type, TensorId dy) {
    TensorId dx = Always(op.inputs[0]);
    TensorId dother = Always(op.inputs[1]);
    g_.AddOp(type, {dy, op.inputs[0], op.inputs[1]}, {dx, dother}, op.attrs, "d " + op.name);
  }

  // For ops that write all their gradients: one is made even where nobody needs it.
  TensorId Always(TensorId of) {
    if (TensorId grad = NewGrad(of); grad != kNoTensor) return grad;
    Tensor t = g_.tensor(of);
    return g_.AddTemp("d " + t.name, t.shape, t.dtype);
  }

  TensorId ThroughRelu(const Op& op, TensorId dy) {
    Tensor t = g_.tensor(op.outputs[0]);
    TensorId masked = g_.AddTemp("d relu " + op.name, t.shape, t.dtype);
    g_.AddOp(OpType::kReluGrad, {dy, op.outputs[0]}, {masked}, NoAttrs{}, "d relu " + op.name);
    return masked;
  }

  void BiasGrad(const Op& op, TensorId dy) {
    if (TensorId db = NewGrad(op.inputs[2]); db != kNoTensor) {
      g_.AddOp(OpType::kBiasGrad, {dy}, {db}, NoAttrs{}, "db " + op.name);
    }
  }

  void Conv(const Op& op, TensorId dy) {
    ConvAttrs attrs = std::get<ConvAttrs>(op.attrs);
    if (attrs.relu) dy = ThroughRelu(op, dy);
    attrs.relu = false;
    BiasGrad(op, dy);
    if (TensorId dw = NewGrad(op.inputs[1]); dw != kNoTensor) {
      g_.AddOp(OpType::kConv2dWgrad, {op.inputs[0], dy}, {dw}, attrs, "dw " + op.name);
    }
    if (TensorId dx = NewGrad(op.inputs[0]); dx != kNoTensor) {
      g_.AddOp(OpType::kConv2dDgrad, {dy, op.inputs[1]}, {dx}, attrs, "dx " + op.name);
    }
  }

  void Linear(const Op& op, TensorId dy) {
    if (std::get<ReluAttrs>(op.attrs).relu) dy = ThroughRelu(op, dy);
    BiasGrad(op, dy);
    if (TensorId dw = NewGrad(op.inputs[1]); dw != kNoTensor) {
      g_.AddOp(OpType::kLinearWgrad, {op.inputs[0], dy}, {dw}, NoAttrs{}, "dw " + op.name);
    }
    if (TensorId dx = NewGrad(op.inputs[0]); dx != kNoTensor) {
      g_.AddOp(OpType::kLinearDgrad, {dy, op.inputs[1]}, {dx}, NoAttrs{}, "dx " + op.name);
    }
  }

  // The forward op keeps a bit mask of its ReLU; made only in graphs that are differentiated.
  TensorId Mask(size_t index, size_t slot) {
    Op& op = g_.ops()[index];
    if (!std::get<NormAttrs>(op.attrs).relu) return kNoTensor;
    if (op.outputs[slot] == kNoTensor) {
      int64_t elements = g_.tensor(op.outputs[0]).elements();
      TensorId mask = g_.AddTemp(op.name + ".mask", {(elements + 7) / 8}, DType::kU8);
      g_.ops()[index].outputs[slot] = mask;
    }
    return g_.ops()[index].outputs[slot];
  }

  // With a ReLU the residual's gradient is the masked one, which the norm's op writes; without, dy
  // itself.
  TensorId ResidualGrad(const Op& op, TensorId dy) {
    if (op.inputs[5] == kNoTensor) return kNoTensor;
    if (std::get<NormAttrs>(op.attrs).relu) return NewGrad(op.inputs[5]);
    Contribute(op.inputs[5], dy);
    return kNoTensor;
  }

  void BatchNorm(size_t index, const Op& op, TensorId dy) {
    TensorId mask = Mask(index, 3);
    TensorId residual = ResidualGrad(op, dy);
    TensorId dx = Always(op.inputs[0]);
    TensorId dscale = Always(op.inputs[1]);
    TensorId dbias = Always(op.inputs[2]);
    g_.AddOp(OpType::kBatchNormGrad,
             {dy, op.inputs[0], op.inputs[1], op.outputs[1], op.outputs[2], mask},
             {dx, dscale, dbias, residual}, op.attrs, "d " + op.name);
  }

  void Affine(size_t index, const Op& op, TensorId dy) {
    TensorId mask = Mask(index, 1);
    TensorId residual = ResidualGrad(op, dy);
    TensorId dx = Always(op.inputs[0]);
    TensorId dscale = NewGrad(op.inputs[1]);
    TensorId dbias = NewGrad(op.inputs[2]);
    TensorId x = dscale == kNoTensor ? kNoTensor : op.inputs[0];
    g_.AddOp(OpType::kAffineGrad, {dy, x, op.inputs[1], op.inputs[3], op.inputs[4], mask},
             {dx, dscale, dbias, residual}, op.attrs, "d " + op.name);
  }

  void MaxPool(size_t index, const Op& op, TensorId dy) {
    if (op.outputs[1] == kNoTensor) {
      TensorId argmax = g_.AddTemp(op.name + ".argmax", g_.tensor(op.outputs[0]).shape, DType::kU8);
      g_.ops()[index].outputs[1] = argmax;
    }
    Unary(op, OpType::kMaxPoolGrad, {dy, g_.ops()[index].outputs[1]}, op.inputs[0]);
  }

  void RoiAlign(const Op& op, TensorId dy) {
    size_t levels = op.inputs.size() - 2;
    std::vector<TensorId> outputs;
    for (size_t l = 0; l < levels; ++l) outputs.push_back(Always(op.inputs[l]));
    g_.AddOp(OpType::kRoiAlignGrad, {dy, op.inputs[levels], op.inputs[levels + 1]}, outputs,
             op.attrs, "d " + op.name);
  }

  // The gradient of each parameter becomes a view into the flat gradient buffer.
  void FinishParams() {
    for (size_t i = 0; i < needs_.size(); ++i) {
      TensorId id = static_cast<TensorId>(i);
      if (!IsTrainable(g_.tensor(id))) continue;
      TensorId grad = TotalGrad(id);
      if (grad == kNoTensor) continue;
      Tensor& t = g_.tensor(grad);
      t.storage = t.dtype == DType::kF32 ? Storage::kGrad : Storage::kGradCompute;
      t.offset = g_.tensor(id).offset;
      t.name = g_.tensor(id).name;
      if (t.storage == Storage::kGrad && g_.compute() != DType::kF32)
        t.offset = g_.layout().AddGrad(g_.layout().FindParam(t.name));
    }
  }

  Graph& g_;
  std::vector<bool> needs_;
  std::vector<std::vector<TensorId>> grads_;  // contributions by tensor
};

}  // namespace

void AppendBackward(Graph& g) {
  const size_t forward_ops = g.ops().size();
  Differentiator(g).Run();
  MakeBlocksAgain(g, forward_ops);
}

}  // namespace xp::graph
