// How a CPU kernel joins: a factory declared here, defined in the file of its operation, and one
// line in registry.cpp. A kernel works in fp32 (and on i32, u8 where the op says so).
#pragma once

#include <memory>

#include "exp/graph/backend.h"
#include "exp/graph/graph.h"

namespace xp::graph::cpu {

// What kernels share: the number of threads. OpenMP loops use `#pragma omp parallel for
// num_threads(context.threads) schedule(static)`; sums over threads use a split that doesn't depend
// on the number of threads wherever that is cheap.
struct Context {
  int threads = 1;
};

using Factory = std::unique_ptr<Kernel> (*)(const Context&, const Graph&, const Op&);

// image.cpp
std::unique_ptr<Kernel> MakeImageNormalize(const Context&, const Graph&, const Op&);
// elementwise.cpp
std::unique_ptr<Kernel> MakeAdd(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeRelu(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeReluGrad(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeSigmoid(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeSigmoidGrad(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeCast(const Context&, const Graph&, const Op&);
// convolution.cpp (oneDNN)
std::unique_ptr<Kernel> MakeConv2d(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeConv2dDgrad(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeConv2dWgrad(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeBiasGrad(const Context&, const Graph&, const Op&);
// linear.cpp (oneDNN)
std::unique_ptr<Kernel> MakeLinear(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeLinearDgrad(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeLinearWgrad(const Context&, const Graph&, const Op&);
// batch_norm.cpp, affine.cpp
std::unique_ptr<Kernel> MakeBatchNorm(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeBatchNormGrad(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeAffine(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeAffineGrad(const Context&, const Graph&, const Op&);
// norm_join.cpp
std::unique_ptr<Kernel> MakeNormJoin(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeNormGradSums(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeNormGradApply(const Context&, const Graph&, const Op&);
// norm_pool.cpp
std::unique_ptr<Kernel> MakeNormPool(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeNormPoolGrad(const Context&, const Graph&, const Op&);  // and its sums
// dgrad_join.cpp
std::unique_ptr<Kernel> MakeDgradJoin(const Context&, const Graph&, const Op&);
// squeeze.cpp: kSqueezeStatistics, kSqueezeSums, kSqueezeFactors, kSqueezeApply
std::unique_ptr<Kernel> MakeSqueezePart(const Context&, const Graph&, const Op&);
// gram.cpp
std::unique_ptr<Kernel> MakeGramStatistics(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeGramGrad(const Context&, const Graph&, const Op&);
// pooling.cpp
std::unique_ptr<Kernel> MakeMaxPool(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeMaxPoolGrad(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeGlobalAvgPool(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeGlobalAvgPoolGrad(const Context&, const Graph&, const Op&);
// resample.cpp
std::unique_ptr<Kernel> MakeUpsampleAdd(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeUpsampleGrad(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeSubsample(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeSubsampleGrad(const Context&, const Graph&, const Op&);
// channels.cpp
std::unique_ptr<Kernel> MakeScaleChannels(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeScaleChannelsGrad(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeL2Norm(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeL2NormGrad(const Context&, const Graph&, const Op&);
// cross_entropy.cpp
std::unique_ptr<Kernel> MakeSoftmaxCrossEntropy(const Context&, const Graph&, const Op&);
// rpn_targets.cpp, rpn_loss.cpp, rpn_proposals.cpp
std::unique_ptr<Kernel> MakeRpnTargets(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeRpnLoss(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeRpnProposals(const Context&, const Graph&, const Op&);
// roi_targets.cpp, roi_align.cpp, roi_loss.cpp, detections.cpp
std::unique_ptr<Kernel> MakeRoiTargets(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeRoiAlign(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeRoiAlignGrad(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeRoiLoss(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeDetections(const Context&, const Graph&, const Op&);
// ssd.cpp, ssd_detections.cpp
std::unique_ptr<Kernel> MakeSsdTargets(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeSsdLoss(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeSsdDetections(const Context&, const Graph&, const Op&);
// optimizer.cpp, clip_grad.cpp
std::unique_ptr<Kernel> MakeClipGrad(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeSgd(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeAdam(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeLars(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeAccumulate(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeEma(const Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeUpdateLossScale(const Context&, const Graph&, const Op&);

}  // namespace xp::graph::cpu
