// The kernels of networks' layers: element-wise, convolution, linear, normalisation, pooling,
// resampling, classification loss.
#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/registry.h"

namespace xp::graph::cpu {
namespace {

Factory FindNnFactory(OpType type) {
  switch (type) {
    case OpType::kImageNormalize:
      return MakeImageNormalize;
    case OpType::kAdd:
      return MakeAdd;
    case OpType::kRelu:
      return MakeRelu;
    case OpType::kReluGrad:
      return MakeReluGrad;
    case OpType::kSigmoid:
      return MakeSigmoid;
    case OpType::kSigmoidGrad:
      return MakeSigmoidGrad;
    case OpType::kCast:
    case OpType::kCastParams:
      return MakeCast;
    case OpType::kConv2d:
      return MakeConv2d;
    case OpType::kConv2dDgrad:
      return MakeConv2dDgrad;
    case OpType::kConv2dWgrad:
      return MakeConv2dWgrad;
    case OpType::kBiasGrad:
      return MakeBiasGrad;
    case OpType::kLinear:
      return MakeLinear;
    case OpType::kLinearDgrad:
      return MakeLinearDgrad;
    case OpType::kLinearWgrad:
      return MakeLinearWgrad;
    case OpType::kBatchNorm:
      return MakeBatchNorm;
    case OpType::kBatchNormGrad:
      return MakeBatchNormGrad;
    case OpType::kAffine:
      return MakeAffine;
    case OpType::kAffineGrad:
      return MakeAffineGrad;
    case OpType::kNormJoin:
      return MakeNormJoin;
    case OpType::kNormGradSums:
      return MakeNormGradSums;
    case OpType::kNormGradApply:
      return MakeNormGradApply;
    case OpType::kDgradJoin:
      return MakeDgradJoin;
    case OpType::kSqueezeStatistics:
    case OpType::kSqueezeSums:
    case OpType::kSqueezeFactors:
    case OpType::kSqueezeApply:
      return MakeSqueezePart;
    case OpType::kNormPool:
      return MakeNormPool;
    case OpType::kNormPoolSums:
    case OpType::kNormPoolGrad:
      return MakeNormPoolGrad;
    case OpType::kGramStatistics:
      return MakeGramStatistics;
    case OpType::kGramGrad:
      return MakeGramGrad;
    case OpType::kMaxPool:
      return MakeMaxPool;
    case OpType::kMaxPoolGrad:
      return MakeMaxPoolGrad;
    case OpType::kGlobalAvgPool:
      return MakeGlobalAvgPool;
    case OpType::kGlobalAvgPoolGrad:
      return MakeGlobalAvgPoolGrad;
    case OpType::kUpsampleAdd:
      return MakeUpsampleAdd;
    case OpType::kUpsampleGrad:
      return MakeUpsampleGrad;
    case OpType::kSubsample:
      return MakeSubsample;
    case OpType::kSubsampleGrad:
      return MakeSubsampleGrad;
    case OpType::kScaleChannels:
      return MakeScaleChannels;
    case OpType::kScaleChannelsGrad:
      return MakeScaleChannelsGrad;
    case OpType::kL2Norm:
      return MakeL2Norm;
    case OpType::kL2NormGrad:
      return MakeL2NormGrad;
    case OpType::kSoftmaxCrossEntropy:
      return MakeSoftmaxCrossEntropy;
    default:
      return nullptr;
  }
}

}  // namespace

std::unique_ptr<Kernel> MakeNnKernel(const Context& context, const Graph& g, const Op& op) {
  const Factory factory = FindNnFactory(op.type);
  return factory == nullptr ? nullptr : factory(context, g, op);
}

}  // namespace xp::graph::cpu
