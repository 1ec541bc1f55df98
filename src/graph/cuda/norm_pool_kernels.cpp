// Batch norm, ReLU and max pool at once, and their gradient.
#include "kernels/norm_pool.h"

#include "exp/base/error.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/device_array.h"
#include "src/graph/cuda/nn_kernels.h"
#include "src/graph/cuda/operands.h"

namespace xp::graph::cuda {
namespace {

class NormPool : public Kernel {
 public:
  NormPool(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        in_(AsMap(InputOf(g, op, 0))),
        out_(AsMap(OutputOf(g, op, 0))),
        type_(ElementTypeOf(InputOf(g, op, 0).dtype)) {}

  void Run(const KernelArgs& args) override {
    kernels::NormPool({.x = args.in[0],
                       .scale = args.In<float>(1),
                       .bias = args.In<float>(2),
                       .mean = args.In<float>(3),
                       .invstd = args.In<float>(4),
                       .y = args.out[0],
                       .argmax = args.Out<uint8_t>(1)},
                      in_, out_, type_, stream_);
    CheckLaunch("NormPool");
  }

 private:
  cudaStream_t stream_;
  kernels::MapShape in_, out_;
  kernels::ElementType type_;
};

// Both passes of the gradient.
class NormPoolGrad : public Kernel {
 public:
  NormPoolGrad(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        sums_(op.type == OpType::kNormPoolSums),
        in_(AsMap(InputOf(g, op, 2))),
        out_(AsMap(InputOf(g, op, 0))),
        type_(ElementTypeOf(InputOf(g, op, 0).dtype)),
        plan_(kernels::PlanNormPoolSums(in_, context.device.multiprocessors)),
        counters_(kernels::NormPoolSumsCounters(plan_)) {}

  size_t WorkspaceBytes() const override { return sums_ ? kernels::NormPoolSumsScratch(plan_) : 0; }

  void Run(const KernelArgs& args) override {
    kernels::NormPoolGradArgs grad{};
    grad.dy = args.in[0];
    grad.argmax = args.In<uint8_t>(1);
    grad.x = args.in[2];
    if (sums_) {
      grad.scale = args.In<float>(3);
      grad.mean = args.In<float>(4);
      grad.invstd = args.In<float>(5);
      grad.dbias = args.Out<float>(0);
      grad.dscale = args.Out<float>(1);
      grad.coefficients = args.Out<float>(2);
      kernels::NormPoolSums(grad, in_, out_, plan_, args.workspace, counters_.data(), type_,
                            stream_);
    } else {
      grad.coefficients = const_cast<float*>(args.In<float>(3));  // read only by this pass
      grad.dx = args.out[0];
      kernels::NormPoolGrad(grad, in_, out_, type_, stream_);
    }
    CheckLaunch("NormPoolGrad");
  }

 private:
  cudaStream_t stream_;
  bool sums_;
  kernels::MapShape in_, out_;
  kernels::ElementType type_;
  kernels::ColumnPlan plan_;
  BlockCounters counters_;
};

}  // namespace

std::unique_ptr<Kernel> MakeNormPool(Context& context, const Graph& g, const Op& op) {
  const auto& pool = std::get<PoolAttrs>(op.attrs);
  const Tensor& map = InputOf(g, op, op.type == OpType::kNormPool ? 0 : 2);
  if (pool.kernel != 3 || pool.stride != 2 || pool.pad != 1 || map.shape.at(3) % 8 != 0) {
    throw UsageError({.what = "a batch norm and a max pool can't be one operation on a GPU",
                      .where = op.name,
                      .expected = "windows of 3 x 3, stride 2, padding 1, channels by eight",
                      .next = "set EXP_FUSION_OFF=pool"});
  }
  if (op.type == OpType::kNormPool) return std::make_unique<NormPool>(context, g, op);
  return std::make_unique<NormPoolGrad>(context, g, op);
}

}  // namespace xp::graph::cuda
