#include "src/graph/cpu/registry.h"

namespace xp::graph::cpu {

std::unique_ptr<Kernel> MakeUpdateKernel(const Context& context, const Graph& g, const Op& op) {
  switch (op.type) {
    case OpType::kClipGrad:
      return MakeClipGrad(context, g, op);
    case OpType::kSgd:
      return MakeSgd(context, g, op);
    case OpType::kAdam:
      return MakeAdam(context, g, op);
    case OpType::kLars:
      return MakeLars(context, g, op);
    case OpType::kAccumulate:
      return MakeAccumulate(context, g, op);
    case OpType::kEma:
      return MakeEma(context, g, op);
    case OpType::kUpdateLossScale:
      return MakeUpdateLossScale(context, g, op);
    default:
      return nullptr;
  }
}

}  // namespace xp::graph::cpu
