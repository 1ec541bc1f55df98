// Batch normalisation and normalisation with fixed statistics.
#include "kernels/affine.h"
#include "kernels/batch_norm.h"
#include "kernels/norm_grad.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/device_array.h"
#include "src/graph/cuda/nn_kernels.h"
#include "src/graph/cuda/operands.h"

namespace xp::graph::cuda {
namespace {

class BatchNorm : public Kernel {
 public:
  BatchNorm(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        rows_(InputOf(g, op, 0)),
        attrs_(std::get<NormAttrs>(op.attrs)),
        plan_(kernels::PlanBatchNorm(rows_.rows, rows_.channels, rows_.type,
                                     context.device.multiprocessors)),
        counters_(kernels::BatchNormCounters(plan_)) {}

  size_t WorkspaceBytes() const override { return kernels::BatchNormScratch(plan_); }

  void Run(const KernelArgs& args) override {
    kernels::BatchNorm({.x = args.in[0],
                        .residual = OptionalIn(args, 5),
                        .scale = args.In<float>(1),
                        .bias = args.In<float>(2),
                        .mean = args.In<float>(3),
                        .var = args.In<float>(4),
                        .mean_after = args.Out<float>(4),
                        .var_after = args.Out<float>(5),
                        .y = OptionalOut(args, 0),
                        .save_mean = args.Out<float>(1),
                        .save_invstd = args.Out<float>(2),
                        .mask = args.Out<uint8_t>(3),
                        .eps = attrs_.eps,
                        .momentum = attrs_.momentum,
                        .relu = attrs_.relu},
                       plan_, args.workspace, counters_.data(), rows_.type, stream_);
    CheckLaunch("BatchNorm");
  }

 private:
  cudaStream_t stream_;
  Rows rows_;
  NormAttrs attrs_;
  kernels::ColumnPlan plan_;
  BlockCounters counters_;
};

// Both gradients: kBatchNormGrad has save_mean and save_invstd where kAffineGrad has mean and var.
class NormGrad : public Kernel {
 public:
  NormGrad(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        batch_(op.type == OpType::kBatchNormGrad),
        rows_(InputOf(g, op, 0)),
        eps_(std::get<NormAttrs>(op.attrs).eps),
        plan_(kernels::PlanNormGrad(rows_.rows, rows_.channels, rows_.type,
                                    context.device.multiprocessors)),
        counters_(kernels::NormGradCounters(plan_)) {}

  size_t WorkspaceBytes() const override { return kernels::NormGradScratch(plan_); }

  void Run(const KernelArgs& args) override {
    const kernels::NormGradArgs grad{.dy = args.in[0],
                                     .x = args.in[1],
                                     .mask = OptionalIn<uint8_t>(args, 5),
                                     .scale = args.In<float>(2),
                                     .mean = args.In<float>(3),
                                     .spread = args.In<float>(4),
                                     .eps = eps_,
                                     .dx = args.out[0],
                                     .dscale = OptionalOut<float>(args, 1),
                                     .dbias = OptionalOut<float>(args, 2),
                                     .dresidual = OptionalOut(args, 3)};
    auto* run = batch_ ? kernels::BatchNormGrad : kernels::AffineGrad;
    run(grad, plan_, args.workspace, counters_.data(), rows_.type, stream_);
    CheckLaunch(batch_ ? "BatchNormGrad" : "AffineGrad");
  }

 private:
  cudaStream_t stream_;
  bool batch_;
  Rows rows_;
  float eps_;
  kernels::ColumnPlan plan_;
  BlockCounters counters_;
};

class Affine : public Kernel {
 public:
  Affine(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream), rows_(InputOf(g, op, 0)), attrs_(std::get<NormAttrs>(op.attrs)) {}

  void Run(const KernelArgs& args) override {
    kernels::Affine({.x = args.in[0],
                     .residual = OptionalIn(args, 5),
                     .scale = args.In<float>(1),
                     .bias = args.In<float>(2),
                     .mean = args.In<float>(3),
                     .var = args.In<float>(4),
                     .y = args.out[0],
                     .mask = OptionalOut<uint8_t>(args, 1),
                     .eps = attrs_.eps,
                     .relu = attrs_.relu},
                    rows_.rows, rows_.channels, rows_.type, stream_);
    CheckLaunch("Affine");
  }

 private:
  cudaStream_t stream_;
  Rows rows_;
  NormAttrs attrs_;
};

}  // namespace

std::unique_ptr<Kernel> MakeBatchNorm(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<BatchNorm>(context, g, op);
}
std::unique_ptr<Kernel> MakeBatchNormGrad(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<NormGrad>(context, g, op);
}
std::unique_ptr<Kernel> MakeAffine(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Affine>(context, g, op);
}
std::unique_ptr<Kernel> MakeAffineGrad(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<NormGrad>(context, g, op);
}

}  // namespace xp::graph::cuda
