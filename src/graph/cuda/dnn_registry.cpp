// Makes the kernels of convolutions and products.
#include <vector>

#include "src/graph/cuda/dnn.h"
#include "src/graph/cuda/kernel.h"

namespace xp::graph::cuda {
namespace {

void* Mutable(const void* p) { return const_cast<void*>(p); }  // cuDNN takes inputs as void*

class ConvKernel : public Kernel {
 public:
  ConvKernel(ConvKind kind, std::shared_ptr<ConvPlan> plan) : kind_(kind), plan_(std::move(plan)) {}
  size_t WorkspaceBytes() const override { return plan_->workspace_bytes(); }
  void Run(const KernelArgs& args) override {
    ConvBuffers buffers;
    switch (kind_) {
      case ConvKind::kForward:
        buffers = {Mutable(args.in[0]), Mutable(args.in[1]), args.out[0]};
        if (args.in.size() > 2) buffers.bias = Mutable(args.in[2]);
        break;
      case ConvKind::kDataGrad:
        buffers = {args.out[0], Mutable(args.in[1]), Mutable(args.in[0])};
        break;
      case ConvKind::kWeightGrad:
        buffers = {Mutable(args.in[0]), args.out[0], Mutable(args.in[1])};
        break;
    }
    plan_->Run(buffers, args.workspace);
  }

 private:
  ConvKind kind_;
  std::shared_ptr<ConvPlan> plan_;
};

bool IsConvolution(OpType type) {
  switch (type) {
    case OpType::kConv2d:
    case OpType::kConv2dDgrad:
    case OpType::kConv2dWgrad:
    case OpType::kLinear:
    case OpType::kLinearDgrad:
    case OpType::kLinearWgrad:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::unique_ptr<Kernel> MakeDnnKernel(Context& context, const Graph& g, const Op& op) {
  auto problem_of = [&](const Op& of) {
    return ProblemOf(g, of, context.options.tf32, context.options.deterministic);
  };
  if (&op == &g.ops().front()) {
    std::vector<ConvProblem> problems;
    for (const Op& each : g.ops()) {
      if (IsConvolution(each.type)) problems.push_back(problem_of(each));
    }
    context.dnn->Announce(problems);
  }
  if (!IsConvolution(op.type)) return nullptr;
  ConvProblem problem = problem_of(op);
  return std::make_unique<ConvKernel>(problem.kind, context.dnn->Plan(problem));
}

}  // namespace xp::graph::cuda
