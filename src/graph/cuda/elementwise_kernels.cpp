// Element-wise operations and conversions.
#include "exp/base/error.h"
#include "kernels/elementwise.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/nn_kernels.h"
#include "src/graph/cuda/operands.h"

namespace xp::graph::cuda {
namespace {

class Elementwise : public Kernel {
 public:
  Elementwise(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        op_(op.type),
        n_(OutputOf(g, op, 0).elements()),
        from_(ElementTypeOf(InputOf(g, op, 0).dtype)),
        to_(ElementTypeOf(OutputOf(g, op, 0).dtype)) {
    if (const auto* attrs = std::get_if<ReluAttrs>(&op.attrs)) relu_ = attrs->relu;
    if (op.inputs.size() > static_cast<size_t>(kernels::kMaxAddInputs)) {
      throw UsageError({.what = "a sum of " + std::to_string(op.inputs.size()) + " tensors",
                        .where = op.name,
                        .expected = "at most " + std::to_string(kernels::kMaxAddInputs),
                        .next = "add them in two steps"});
    }
  }

  void Run(const KernelArgs& args) override {
    const auto* in = args.in.data();
    void* out = args.out[0];
    switch (op_) {
      case OpType::kAdd:
        kernels::Add(in, static_cast<int>(args.in.size()), out, n_, relu_, to_, stream_);
        break;
      case OpType::kRelu:
        kernels::Relu(in[0], out, n_, to_, stream_);
        break;
      case OpType::kReluGrad:
        kernels::ReluGrad(in[0], in[1], out, n_, to_, stream_);
        break;
      case OpType::kSigmoid:
        kernels::Sigmoid(in[0], out, n_, to_, stream_);
        break;
      case OpType::kSigmoidGrad:
        kernels::SigmoidGrad(in[0], in[1], out, n_, to_, stream_);
        break;
      default:
        kernels::Cast(in[0], from_, out, to_, n_, stream_);
    }
    CheckLaunch(OpName(op_));
  }

 private:
  cudaStream_t stream_;
  OpType op_;
  int64_t n_;
  kernels::ElementType from_, to_;
  bool relu_ = false;
};

}  // namespace

std::unique_ptr<Kernel> MakeElementwise(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Elementwise>(context, g, op);
}

}  // namespace xp::graph::cuda
