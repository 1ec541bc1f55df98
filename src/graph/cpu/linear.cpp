// Fully connected layers: oneDNN's matrix products (onednn.h).
#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/onednn.h"
#include "src/graph/cpu/shapes.h"

namespace xp::graph::cpu {
namespace {

// `w` is [O, K]; `rows` any tensor whose first dimension is M.
LinearProblem Describe(const Tensor& w, const Tensor& rows) {
  LinearProblem p;
  p.rows = rows.shape.at(0);
  p.out_features = w.shape.at(0);
  p.in_features = w.shape.at(1);
  return p;
}

class Linear : public Kernel {
 public:
  Linear(const Context& context, const LinearProblem& problem, Direction direction)
      : bias_(problem.bias), op_(MakeProduct(problem, direction, context.threads)) {}

  size_t WorkspaceBytes() const override { return op_->WorkspaceBytes(); }
  void Run(const KernelArgs& args) override {
    op_->Run(args.in[0], args.in[1], bias_ ? args.In<float>(2) : nullptr, args.out[0],
             args.workspace);
  }

 private:
  bool bias_;
  std::unique_ptr<OnednnOp> op_;
};

}  // namespace

std::unique_ptr<Kernel> MakeLinear(const Context& context, const Graph& g, const Op& op) {
  LinearProblem p = Describe(InputOf(g, op, 1), InputOf(g, op, 0));
  p.bias = HasInput(op, 2);
  if (const auto* attrs = std::get_if<ReluAttrs>(&op.attrs)) p.relu = attrs->relu;
  return std::make_unique<Linear>(context, p, Direction::kForward);
}
std::unique_ptr<Kernel> MakeLinearDgrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Linear>(context, Describe(InputOf(g, op, 1), InputOf(g, op, 0)),
                                  Direction::kDataGrad);
}
std::unique_ptr<Kernel> MakeLinearWgrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Linear>(context, Describe(OutputOf(g, op, 0), InputOf(g, op, 0)),
                                  Direction::kWeightGrad);
}

}  // namespace xp::graph::cpu
