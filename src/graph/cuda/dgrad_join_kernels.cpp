// A convolution's data gradient joined with what else flows into its input.
#include "kernels/dgrad_join.h"

#include <utility>

#include "exp/base/error.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/device_array.h"
#include "src/graph/cuda/nn_kernels.h"
#include "src/graph/cuda/operands.h"
#include "src/graph/step_edit.h"

namespace xp::graph::cuda {
namespace {

class DgradJoin : public Kernel {
 public:
  DgradJoin(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        map_(OutputOf(g, op, 0)),
        depth_(static_cast<int>(InputOf(g, op, 2).shape.at(0))),
        type_(ElementTypeOf(OutputOf(g, op, 0).dtype)),
        plan_(kernels::PlanDgradJoin(map_.rows, map_.channels, type_,
                                     context.device.multiprocessors,
                                     context.device.shared_memory_optin)),
        counters_(kernels::DgradJoinCounters(plan_)) {
    if (LastIsHalf(g, op, kJoinMore, kJoinMostMore)) even_ = EvenPixelsOf(OutputOf(g, op, 0));
  }

  size_t WorkspaceBytes() const override { return kernels::DgradJoinScratch(plan_); }

  void Run(const KernelArgs& args) override {
    kernels::DgradJoinArgs join{};
    join.dy = args.in[1];
    join.w = args.in[2];
    const void *first = args.in[kJoinMore], *second = OptionalIn(args, kJoinMore + 1);
    if (even_.half_height > 0) {
      join.even = even_;
      join.even.values = second != nullptr ? std::exchange(second, first) : first;
      first = nullptr;
    }
    join.more[0] = first;
    join.more[1] = second;
    join.mask = OptionalIn<uint8_t>(args, 0);
    join.g = args.out[0];
    join.dbias[0] = OptionalOut<float>(args, 1);
    join.dbias[1] = OptionalOut<float>(args, 2);
    join.rows = map_.rows;
    join.columns = map_.channels;
    join.depth = depth_;
    kernels::DgradJoin(join, plan_, args.workspace, counters_.data(), type_, stream_);
    CheckLaunch("DgradJoin");
  }

 private:
  cudaStream_t stream_;
  Rows map_;
  int depth_;
  kernels::ElementType type_;
  kernels::EvenPixels even_;  // its size, where there is one
  kernels::DgradJoinPlan plan_;
  BlockCounters counters_;
};

}  // namespace

std::unique_ptr<Kernel> MakeDgradJoin(Context& context, const Graph& g, const Op& op) {
  const Tensor& w = InputOf(g, op, 2);
  const bool type = w.dtype == DType::kBF16 || (w.dtype == DType::kF32 && context.options.tf32);
  const bool fits = type && w.shape.at(1) == 1 && w.shape.at(2) == 1 &&
                    w.shape.at(3) % kernels::kDgradJoinColumns == 0 &&
                    w.shape.at(0) % kernels::kDgradJoinDepth == 0 &&
                    w.shape.at(0) > kernels::kDgradJoinDepth && context.device.major >= 8;
  if (!fits) {
    throw UsageError({.what = "a data gradient can't be joined with other gradients here",
                      .where = op.name,
                      .expected = "1x1, bf16 or tf32, compute capability 8.0",
                      .next = "set EXP_FUSION_OFF=dgrad,dgrad_tf32"});
  }
  return std::make_unique<DgradJoin>(context, g, op);
}

}  // namespace xp::graph::cuda
