#include "src/graph/cpu/registry.h"

#include "exp/base/error.h"
#include "src/graph/cpu/narrow.h"
#include "src/graph/cpu/widened.h"

namespace xp::graph::cpu {

namespace {

std::unique_ptr<Kernel> Find(const Context& context, const Graph& g, const Op& op) {
  if (auto kernel = MakeNnKernel(context, g, op)) return kernel;
  if (auto kernel = MakeDetectionKernel(context, g, op)) return kernel;
  return MakeUpdateKernel(context, g, op);
}

// Kernels that read and write the compute type themselves.
bool TakesNarrow(OpType type) {
  switch (type) {
    case OpType::kImageNormalize:
    case OpType::kAdd:
    case OpType::kRelu:
    case OpType::kReluGrad:
    case OpType::kSigmoid:
    case OpType::kSigmoidGrad:
    case OpType::kBiasGrad:
    case OpType::kBatchNorm:
    case OpType::kBatchNormGrad:
    case OpType::kAffine:
    case OpType::kAffineGrad:
    case OpType::kNormJoin:
    case OpType::kNormGradSums:
    case OpType::kNormGradApply:
    case OpType::kMaxPool:
    case OpType::kMaxPoolGrad:
    case OpType::kGlobalAvgPool:
    case OpType::kGlobalAvgPoolGrad:
    case OpType::kClipGrad:
    case OpType::kSgd:
    case OpType::kAdam:
    case OpType::kLars:
    case OpType::kAccumulate:
    case OpType::kConv2d:
    case OpType::kConv2dDgrad:
    case OpType::kConv2dWgrad:
    case OpType::kLinear:
    case OpType::kLinearDgrad:
    case OpType::kLinearWgrad:
    case OpType::kCast:
    case OpType::kCastParams:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::unique_ptr<Kernel> MakeKernel(const Context& context, const Graph& g, const Op& op) {
  const bool narrow = IsNarrow(g.compute());
  std::unique_ptr<Kernel> kernel;
  if (!narrow || TakesNarrow(op.type)) kernel = Find(context, g, op);
  if (kernel == nullptr && narrow) kernel = MakeWidened(context, g, op, Find);
  if (kernel != nullptr) return kernel;
  throw UsageError({.what = std::string("the CPU backend has no ") + OpName(op.type) + " for " +
                            DTypeName(g.compute()),
                    .where = op.name,
                    .next = "use precision: fp32 on the CPU"});
}

}  // namespace xp::graph::cpu
