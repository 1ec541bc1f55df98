#include "exp/graph/ops.h"

namespace xp::graph {

const char* OpName(OpType type) {
#define XP_OP(name)     \
  case OpType::k##name: \
    return #name;
  switch (type) {
    XP_OP(ImageNormalize)
    XP_OP(Add)
    XP_OP(Relu)
    XP_OP(ReluGrad)
    XP_OP(Sigmoid)
    XP_OP(SigmoidGrad)
    XP_OP(Cast)
    XP_OP(Conv2d)
    XP_OP(Conv2dDgrad)
    XP_OP(Conv2dWgrad)
    XP_OP(BiasGrad)
    XP_OP(Linear)
    XP_OP(LinearDgrad)
    XP_OP(LinearWgrad)
    XP_OP(BatchNorm)
    XP_OP(BatchNormGrad)
    XP_OP(Affine)
    XP_OP(AffineGrad)
    XP_OP(NormJoin)
    XP_OP(NormGradSums)
    XP_OP(NormGradApply)
    XP_OP(GramStatistics)
    XP_OP(GramGrad)
    XP_OP(DgradJoin)
    XP_OP(SqueezeStatistics)
    XP_OP(SqueezeSums)
    XP_OP(SqueezeFactors)
    XP_OP(SqueezeApply)
    XP_OP(NormPool)
    XP_OP(NormPoolSums)
    XP_OP(NormPoolGrad)
    XP_OP(MaxPool)
    XP_OP(MaxPoolGrad)
    XP_OP(GlobalAvgPool)
    XP_OP(GlobalAvgPoolGrad)
    XP_OP(UpsampleAdd)
    XP_OP(UpsampleGrad)
    XP_OP(Subsample)
    XP_OP(SubsampleGrad)
    XP_OP(ScaleChannels)
    XP_OP(ScaleChannelsGrad)
    XP_OP(L2Norm)
    XP_OP(L2NormGrad)
    XP_OP(SoftmaxCrossEntropy)
    XP_OP(RpnTargets)
    XP_OP(RpnLoss)
    XP_OP(RpnProposals)
    XP_OP(RoiTargets)
    XP_OP(RoiAlign)
    XP_OP(RoiAlignGrad)
    XP_OP(RoiLoss)
    XP_OP(Detections)
    XP_OP(SsdTargets)
    XP_OP(SsdLoss)
    XP_OP(SsdDetections)
    XP_OP(ClipGrad)
    XP_OP(Sgd)
    XP_OP(Adam)
    XP_OP(Lars)
    XP_OP(Accumulate)
    XP_OP(CastParams)
    XP_OP(Ema)
    XP_OP(UpdateLossScale)
  }
#undef XP_OP
  return "?";
}

}  // namespace xp::graph
