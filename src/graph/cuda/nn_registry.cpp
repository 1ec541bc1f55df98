// Makes the kernels of the element-wise, normalisation, pooling, resampling, image and
// classification operations.
#include "src/graph/cuda/nn_kernels.h"

namespace xp::graph::cuda {

std::unique_ptr<Kernel> MakeNnKernel(Context& context, const Graph& g, const Op& op) {
  switch (op.type) {
    case OpType::kAdd:
    case OpType::kRelu:
    case OpType::kReluGrad:
    case OpType::kSigmoid:
    case OpType::kSigmoidGrad:
    case OpType::kCast:
      return MakeElementwise(context, g, op);
    case OpType::kBiasGrad:
      return MakeBiasGrad(context, g, op);
    case OpType::kBatchNorm:
      return MakeBatchNorm(context, g, op);
    case OpType::kBatchNormGrad:
      return MakeBatchNormGrad(context, g, op);
    case OpType::kAffine:
      return MakeAffine(context, g, op);
    case OpType::kAffineGrad:
      return MakeAffineGrad(context, g, op);
    case OpType::kNormJoin:
    case OpType::kNormGradSums:
    case OpType::kNormGradApply:
      return MakeNormPart(context, g, op);
    case OpType::kDgradJoin:
      return MakeDgradJoin(context, g, op);
    case OpType::kSqueezeStatistics:
    case OpType::kSqueezeSums:
    case OpType::kSqueezeFactors:
    case OpType::kSqueezeApply:
      return MakeSqueezePart(context, g, op);
    case OpType::kNormPool:
    case OpType::kNormPoolSums:
    case OpType::kNormPoolGrad:
      return MakeNormPool(context, g, op);
    case OpType::kGramStatistics:
    case OpType::kGramGrad:
      return MakeGram(context, g, op);
    case OpType::kImageNormalize:
      return MakeImageNormalize(context, g, op);
    case OpType::kMaxPool:
      return MakeMaxPool(context, g, op);
    case OpType::kMaxPoolGrad:
      return MakeMaxPoolGrad(context, g, op);
    case OpType::kGlobalAvgPool:
    case OpType::kGlobalAvgPoolGrad:
      return MakeGlobalAvgPool(context, g, op);
    case OpType::kUpsampleAdd:
    case OpType::kUpsampleGrad:
    case OpType::kSubsample:
    case OpType::kSubsampleGrad:
      return MakeResample(context, g, op);
    case OpType::kScaleChannels:
    case OpType::kScaleChannelsGrad:
      return MakeScaleChannels(context, g, op);
    case OpType::kL2Norm:
      return MakeL2Norm(context, g, op);
    case OpType::kL2NormGrad:
      return MakeL2NormGrad(context, g, op);
    case OpType::kSoftmaxCrossEntropy:
      return MakeSoftmaxCrossEntropy(context, g, op);
    default:
      return nullptr;
  }
}

}  // namespace xp::graph::cuda
