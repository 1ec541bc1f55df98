// Makes the kernels of the gradient clipping, optimizer and parameter operations.
#include "src/graph/cuda/nn_kernels.h"

namespace xp::graph::cuda {

std::unique_ptr<Kernel> MakeUpdateKernel(Context& context, const Graph& g, const Op& op) {
  switch (op.type) {
    case OpType::kClipGrad:
      return MakeClipGrad(context, g, op);
    case OpType::kSgd:
    case OpType::kLars:
      return MakeSgd(context, g, op);
    case OpType::kAdam:
      return MakeAdam(context, g, op);
    case OpType::kAccumulate:
      return MakeAccumulate(context, g, op);
    case OpType::kCastParams:
      return MakeElementwise(context, g, op);
    case OpType::kEma:
      return MakeEma(context, g, op);
    case OpType::kUpdateLossScale:
      return MakeUpdateLossScale(context, g, op);
    default:
      return nullptr;
  }
}

}  // namespace xp::graph::cuda
