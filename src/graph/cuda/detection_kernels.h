// The detection operations' kernels, by the part of a detector they belong to.
#pragma once

#include <memory>

#include "src/graph/cuda/kernel.h"

namespace xp::graph::cuda {

// detection_rpn.cpp
std::unique_ptr<Kernel> MakeRpnTargets(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeRpnLoss(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeRpnProposals(Context&, const Graph&, const Op&);
// detection_roi.cpp
std::unique_ptr<Kernel> MakeRoiTargets(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeRoiAlign(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeRoiAlignGrad(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeRoiLoss(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeDetections(Context&, const Graph&, const Op&);
// detection_ssd.cpp
std::unique_ptr<Kernel> MakeSsdTargets(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeSsdLoss(Context&, const Graph&, const Op&);
std::unique_ptr<Kernel> MakeSsdDetections(Context&, const Graph&, const Op&);

// The optional loss scale is an op's last input.
inline const float* LossScale(const KernelArgs& args, size_t index) {
  return index < args.in.size() ? args.In<float>(index) : nullptr;
}

}  // namespace xp::graph::cuda
