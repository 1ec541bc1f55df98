// The factories that nn_registry.cpp and update_registry.cpp list. Each reads the op's shapes and
// holds them; Run calls the launcher in kernels/.
#pragma once

#include <memory>

#include "src/graph/cuda/kernel.h"

namespace xp::graph::cuda {

// elementwise_kernels.cpp: kAdd, kRelu, kReluGrad, kSigmoid, kSigmoidGrad, kCast, kCastParams
std::unique_ptr<Kernel> MakeElementwise(Context&, const Graph&, const Op&);
// norm_kernels.cpp
std::unique_ptr<Kernel> MakeBatchNorm(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeBatchNormGrad(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeAffine(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeAffineGrad(Context&, const Graph&, const Op&);
// norm_join_kernels.cpp: kNormJoin, kNormGradSums, kNormGradApply
std::unique_ptr<Kernel> MakeNormPart(Context&, const Graph&, const Op&);
// norm_pool_kernels.cpp: kNormPool, kNormPoolSums, kNormPoolGrad
std::unique_ptr<Kernel> MakeNormPool(Context&, const Graph&, const Op&);
// dgrad_join_kernels.cpp
std::unique_ptr<Kernel> MakeDgradJoin(Context&, const Graph&, const Op&);
// squeeze_kernels.cpp: kSqueezeStatistics, kSqueezeSums, kSqueezeFactors, kSqueezeApply
std::unique_ptr<Kernel> MakeSqueezePart(Context&, const Graph&, const Op&);
// gram_kernels.cpp: kGramStatistics, kGramGrad
std::unique_ptr<Kernel> MakeGram(Context&, const Graph&, const Op&);
// map_kernels.cpp: images, pooling and resampling
std::unique_ptr<Kernel> MakeImageNormalize(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeMaxPool(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeMaxPoolGrad(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeResample(Context&, const Graph&, const Op&);
// channel_kernels.cpp: per-channel sums and factors
std::unique_ptr<Kernel> MakeBiasGrad(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeGlobalAvgPool(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeScaleChannels(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeL2Norm(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeL2NormGrad(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeSoftmaxCrossEntropy(Context&, const Graph&, const Op&);
// update_kernels.cpp
std::unique_ptr<Kernel> MakeClipGrad(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeSgd(Context&, const Graph&, const Op&);  // kSgd and kLars
std::unique_ptr<Kernel> MakeAdam(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeAccumulate(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeEma(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeUpdateLossScale(Context&, const Graph&, const Op&);

}  // namespace xp::graph::cuda
