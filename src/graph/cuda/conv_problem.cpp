#include "src/graph/cuda/conv_problem.h"

#include <fmt/format.h>

#include <stdexcept>

namespace xp::graph::cuda {
namespace {

const char* KindName(ConvKind kind) {
  switch (kind) {
    case ConvKind::kForward:
      return "fprop";
    case ConvKind::kDataGrad:
      return "dgrad";
    case ConvKind::kWeightGrad:
      return "wgrad";
  }
  return "";
}

// The three tensors of a convolution, wherever the operation keeps them.
struct Roles {
  ConvKind kind;
  TensorId x, w, y;
};

Roles RolesOf(const Op& op) {
  switch (op.type) {
    case OpType::kConv2d:
    case OpType::kLinear:
      return {ConvKind::kForward, op.inputs[0], op.inputs[1], op.outputs[0]};
    case OpType::kConv2dDgrad:
    case OpType::kLinearDgrad:
      return {ConvKind::kDataGrad, op.outputs[0], op.inputs[1], op.inputs[0]};
    case OpType::kConv2dWgrad:
    case OpType::kLinearWgrad:
      return {ConvKind::kWeightGrad, op.inputs[0], op.outputs[0], op.inputs[1]};
    default:
      throw std::logic_error("not a convolution");
  }
}

}  // namespace

std::string ConvProblem::Key() const {
  std::string type_name = tf32 && type == DType::kF32 ? "tf32" : DTypeName(type);
  std::string key =
      fmt::format("{}-{}-x{}x{}x{}x{}-w{}x{}x{}x{}-s{}x{}-p{}x{}-d{}x{}-g{}", KindName(kind),
                  type_name, n, h, w, c, k, r, s, c / groups, stride[0], stride[1], pad[0], pad[1],
                  dilation[0], dilation[1], groups);
  if (bias) key += "-bias";
  if (relu) key += "-relu";
  if (linear) key += "-linear";
  if (!deterministic) key += "-any";
  return key;
}

ConvProblem ProblemOf(const Graph& g, const Op& op, bool tf32, bool deterministic) {
  Roles roles = RolesOf(op);
  const Tensor& x = g.tensor(roles.x);
  const Tensor& w = g.tensor(roles.w);
  const Tensor& y = g.tensor(roles.y);
  ConvProblem problem;
  problem.kind = roles.kind;
  problem.type = x.dtype;
  problem.tf32 = tf32 && x.dtype == DType::kF32;
  problem.deterministic = deterministic;
  problem.bias =
      roles.kind == ConvKind::kForward && op.inputs.size() > 2 && op.inputs[2] != kNoTensor;
  if (const auto* attrs = std::get_if<ConvAttrs>(&op.attrs)) {
    problem.n = x.shape[0];
    problem.h = x.shape[1];
    problem.w = x.shape[2];
    problem.c = x.shape[3];
    problem.k = w.shape[0];
    problem.r = w.shape[1];
    problem.s = w.shape[2];
    problem.p = y.shape[1];
    problem.q = y.shape[2];
    problem.stride = attrs->stride;
    problem.pad = attrs->pad;
    problem.dilation = attrs->dilation;
    problem.groups = attrs->groups;
    problem.relu = attrs->relu && roles.kind == ConvKind::kForward;
    return problem;
  }
  // Any leading dimensions: [.., K] is a matrix.
  problem.linear = true;
  problem.k = w.shape[0];
  problem.c = w.elements() / problem.k;
  problem.n = x.elements() / problem.c;
  if (const auto* attrs = std::get_if<ReluAttrs>(&op.attrs)) {
    problem.relu = attrs->relu && roles.kind == ConvKind::kForward;
  }
  return problem;
}

}  // namespace xp::graph::cuda
