// kernels/conv3x3_wgrad.h as a plan of a convolution.
#include <limits>

#include "kernels/conv3x3_wgrad.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/own_conv.h"

namespace xp::graph::cuda {
namespace {

class Conv3x3Wgrad : public ConvPlan {
 public:
  Conv3x3Wgrad(const kernels::Conv3x3WgradPlan& plan, cudaStream_t stream)
      : plan_(plan), stream_(stream) {}
  size_t workspace_bytes() const override { return kernels::Conv3x3WgradScratch(plan_); }
  void Run(const ConvBuffers& b, void* workspace) override {
    kernels::Conv3x3Wgrad(plan_, static_cast<const float*>(b.x), static_cast<const float*>(b.y),
                          static_cast<float*>(b.w), workspace, stream_);
    CheckLaunch("Conv3x3Wgrad");
  }

 private:
  kernels::Conv3x3WgradPlan plan_;
  cudaStream_t stream_;
};

}  // namespace

std::unique_ptr<ConvPlan> MakeConv3x3Wgrad(const ConvProblem& problem,
                                           const OwnConvTarget& target) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  const ConvProblem& p = problem;
  const bool fits = target.major >= 8 && p.kind == ConvKind::kWeightGrad && p.type == DType::kF32 &&
                    p.tf32 && p.groups == 1 && p.r == 3 && p.s == 3 &&
                    p.stride == std::array{1, 1} && p.pad == std::array{1, 1} &&
                    p.dilation == std::array{1, 1} && p.c % 64 == 0 && p.k % 64 == 0 &&
                    p.n * p.h * p.w > 0 && p.n * p.h * p.w < kMost && p.w_elements() < kMost;
  if (!fits) return nullptr;
  const kernels::Conv3x3WgradPlan plan = kernels::PlanConv3x3Wgrad({.n = static_cast<int>(p.n),
                                                                    .h = static_cast<int>(p.h),
                                                                    .w = static_cast<int>(p.w),
                                                                    .c = static_cast<int>(p.c),
                                                                    .k = static_cast<int>(p.k)},
                                                                   target.multiprocessors);
  if (plan.parts == 0) return nullptr;
  return std::make_unique<Conv3x3Wgrad>(plan, target.stream);
}

}  // namespace xp::graph::cuda
