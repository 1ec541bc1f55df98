// kernels/grouped_conv.h as a plan of a convolution.
#include "kernels/grouped_conv.h"

#include "src/graph/cuda/check.h"
#include "src/graph/cuda/element_type.h"
#include "src/graph/cuda/own_conv.h"

namespace xp::graph::cuda {
namespace {

using kernels::GroupedConvKind;

class GroupedConv : public ConvPlan {
 public:
  GroupedConv(const kernels::GroupedConvPlan& plan, cudaStream_t stream)
      : plan_(plan), stream_(stream) {}
  size_t workspace_bytes() const override { return kernels::GroupedConvScratch(plan_); }
  void Run(const ConvBuffers& b, void* workspace) override {
    kernels::GroupedConv(plan_, b.x, b.w, b.y, workspace, stream_);
    CheckLaunch("GroupedConv");
  }

 private:
  kernels::GroupedConvPlan plan_;
  cudaStream_t stream_;
};

GroupedConvKind KindOf(ConvKind kind) {
  switch (kind) {
    case ConvKind::kForward:
      break;
    case ConvKind::kDataGrad:
      return GroupedConvKind::kDataGrad;
    case ConvKind::kWeightGrad:
      return GroupedConvKind::kWeightGrad;
  }
  return GroupedConvKind::kForward;
}

}  // namespace

std::unique_ptr<ConvPlan> MakeGroupedConv(const ConvProblem& problem, const OwnConvTarget& target) {
  constexpr int64_t kMost = 1 << 30;
  const bool is_it = target.major >= 8 && problem.type != DType::kF32 && problem.groups > 1 &&
                     problem.r == 3 && problem.s == 3 && problem.c == problem.k &&
                     problem.stride[0] == problem.stride[1] && problem.pad == std::array{1, 1} &&
                     problem.dilation == std::array{1, 1} && problem.n < kMost &&
                     problem.h < kMost && problem.w < kMost && problem.c < kMost;
  if (!is_it) return nullptr;
  const kernels::GroupedConvShape shape{.n = static_cast<int>(problem.n),
                                        .h = static_cast<int>(problem.h),
                                        .w = static_cast<int>(problem.w),
                                        .c = static_cast<int>(problem.c),
                                        .group = static_cast<int>(problem.c / problem.groups),
                                        .stride = problem.stride[0]};
  const kernels::ElementType type = ElementTypeOf(problem.type);
  if (!kernels::GroupedConvFits(shape, type)) return nullptr;
  const kernels::GroupedConvPlan plan =
      kernels::PlanGroupedConv(KindOf(problem.kind), shape, type, target.multiprocessors);
  if (plan.parts == 0) return nullptr;
  return std::make_unique<GroupedConv>(plan, target.stream);
}

}  // namespace xp::graph::cuda
