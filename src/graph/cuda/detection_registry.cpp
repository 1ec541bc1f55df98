// Makes the kernels of the detection operations.
#include "src/graph/cuda/detection_kernels.h"

namespace xp::graph::cuda {

std::unique_ptr<Kernel> MakeDetectionKernel(Context& context, const Graph& g, const Op& op) {
  switch (op.type) {
    case OpType::kRpnTargets:
      return MakeRpnTargets(context, g, op);
    case OpType::kRpnLoss:
      return MakeRpnLoss(context, g, op);
    case OpType::kRpnProposals:
      return MakeRpnProposals(context, g, op);
    case OpType::kRoiTargets:
      return MakeRoiTargets(context, g, op);
    case OpType::kRoiAlign:
      return MakeRoiAlign(context, g, op);
    case OpType::kRoiAlignGrad:
      return MakeRoiAlignGrad(context, g, op);
    case OpType::kRoiLoss:
      return MakeRoiLoss(context, g, op);
    case OpType::kDetections:
      return MakeDetections(context, g, op);
    case OpType::kSsdTargets:
      return MakeSsdTargets(context, g, op);
    case OpType::kSsdLoss:
      return MakeSsdLoss(context, g, op);
    case OpType::kSsdDetections:
      return MakeSsdDetections(context, g, op);
    default:
      return nullptr;
  }
}

}  // namespace xp::graph::cuda
