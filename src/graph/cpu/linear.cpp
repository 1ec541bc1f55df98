// Fully connected layers: oneDNN's matrix products (onednn.h).
#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/onednn_kernel.h"
#include "src/graph/cpu/shapes.h"

namespace xp::graph::cpu {
namespace {

// `w` is [O, K]; `rows` any tensor whose first dimension is M.
LinearProblem Describe(const Tensor& w, const Tensor& rows) {
  LinearProblem p;
  p.rows = rows.shape.at(0);
  p.out_features = w.shape.at(0);
  p.in_features = w.shape.at(1);
  p.type = w.dtype;
  return p;
}

std::unique_ptr<Kernel> Make(const Context& context, const LinearProblem& problem,
                             Direction direction) {
  return OnednnKernel::Of(MakeProduct(problem, direction, context.threads), problem.bias);
}

}  // namespace

std::unique_ptr<Kernel> MakeLinear(const Context& context, const Graph& g, const Op& op) {
  LinearProblem p = Describe(InputOf(g, op, 1), InputOf(g, op, 0));
  p.bias = HasInput(op, 2);
  if (const auto* attrs = std::get_if<ReluAttrs>(&op.attrs)) p.relu = attrs->relu;
  return Make(context, p, Direction::kForward);
}
std::unique_ptr<Kernel> MakeLinearDgrad(const Context& context, const Graph& g, const Op& op) {
  return Make(context, Describe(InputOf(g, op, 1), InputOf(g, op, 0)), Direction::kDataGrad);
}
std::unique_ptr<Kernel> MakeLinearWgrad(const Context& context, const Graph& g, const Op& op) {
  return Make(context, Describe(OutputOf(g, op, 0), InputOf(g, op, 0)), Direction::kWeightGrad);
}

}  // namespace xp::graph::cpu
