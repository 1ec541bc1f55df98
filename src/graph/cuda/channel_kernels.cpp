// Sums over rows or pixels and factors a channel: bias gradients, global pooling, squeeze-and-
// excitation's scaling, L2 normalisation, cross-entropy.
#include "kernels/bias_grad.h"
#include "kernels/cross_entropy.h"
#include "kernels/global_avg_pool.h"
#include "kernels/l2_norm.h"
#include "kernels/scale_channels.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/device_array.h"
#include "src/graph/cuda/nn_kernels.h"
#include "src/graph/cuda/operands.h"

namespace xp::graph::cuda {
namespace {

class BiasGrad : public Kernel {
 public:
  BiasGrad(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        rows_(InputOf(g, op, 0)),
        plan_(kernels::PlanBiasGrad(rows_.rows, rows_.channels, rows_.type,
                                    context.device.multiprocessors)),
        counters_(kernels::BiasGradCounters(plan_)) {}

  size_t WorkspaceBytes() const override { return kernels::BiasGradScratch(plan_); }

  void Run(const KernelArgs& args) override {
    kernels::BiasGrad(args.in[0], args.Out<float>(0), plan_, args.workspace, counters_.data(),
                      rows_.type, stream_);
    CheckLaunch("BiasGrad");
  }

 private:
  cudaStream_t stream_;
  Rows rows_;
  kernels::ColumnPlan plan_;
  BlockCounters counters_;
};

// kGlobalAvgPool, kScaleChannels and their gradients: maps seen as [images, pixels, channels].
class ImageChannels : public Kernel {
 public:
  ImageChannels(const Context& context, const Op& op, const Tensor& map)
      : stream_(context.stream),
        op_(op.type),
        shape_(AsMap(map)),
        pixels_(shape_.h * shape_.w),
        type_(ElementTypeOf(map.dtype)) {}

  void Run(const KernelArgs& args) override {
    const int n = shape_.n, c = shape_.c;
    switch (op_) {
      case OpType::kGlobalAvgPool:
        kernels::GlobalAvgPool(args.in[0], args.out[0], n, pixels_, c, type_, stream_);
        break;
      case OpType::kGlobalAvgPoolGrad:
        kernels::GlobalAvgPoolGrad(args.in[0], args.out[0], n, pixels_, c, type_, stream_);
        break;
      case OpType::kScaleChannels:
        kernels::ScaleChannels(args.in[0], args.in[1], args.out[0], n, pixels_, c, type_, stream_);
        break;
      default:
        kernels::ScaleChannelsGrad(args.in[0], args.in[1], args.in[2], args.out[0], args.out[1], n,
                                   pixels_, c, type_, stream_);
    }
    CheckLaunch(OpName(op_));
  }

 private:
  cudaStream_t stream_;
  OpType op_;
  kernels::MapShape shape_;
  int pixels_;
  kernels::ElementType type_;
};

class L2Norm : public Kernel {
 public:
  L2Norm(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream), rows_(InputOf(g, op, 0)) {}

  void Run(const KernelArgs& args) override {
    kernels::L2Norm(args.in[0], args.In<float>(1), args.out[0], rows_.rows, rows_.channels,
                    rows_.type, stream_);
    CheckLaunch("L2Norm");
  }

 private:
  cudaStream_t stream_;
  Rows rows_;
};

class L2NormGrad : public Kernel {
 public:
  L2NormGrad(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        rows_(InputOf(g, op, 0)),
        plan_(kernels::PlanL2NormGrad(rows_.rows, rows_.channels, rows_.type,
                                      context.device.multiprocessors)),
        counters_(kernels::L2NormGradCounters(plan_)) {}

  size_t WorkspaceBytes() const override { return kernels::L2NormGradScratch(plan_); }

  void Run(const KernelArgs& args) override {
    kernels::L2NormGrad(args.in[0], args.in[1], args.In<float>(2), args.out[0], args.Out<float>(1),
                        plan_, args.workspace, counters_.data(), rows_.type, stream_);
    CheckLaunch("L2NormGrad");
  }

 private:
  cudaStream_t stream_;
  Rows rows_;
  kernels::ColumnPlan plan_;
  BlockCounters counters_;
};

class SoftmaxCrossEntropy : public Kernel {
 public:
  SoftmaxCrossEntropy(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        rows_(InputOf(g, op, 0)),
        smoothing_(std::get<CrossEntropyAttrs>(op.attrs).label_smoothing),
        counter_(1) {}

  size_t WorkspaceBytes() const override {
    return kernels::CrossEntropyScratch(static_cast<int>(rows_.rows));
  }

  void Run(const KernelArgs& args) override {
    kernels::SoftmaxCrossEntropy({.logits = args.in[0],
                                  .labels = args.In<int32_t>(1),
                                  .loss_scale = OptionalIn<float>(args, 2),
                                  .loss = args.Out<float>(0),
                                  .dlogits = OptionalOut(args, 1),
                                  .correct = OptionalOut<int32_t>(args, 2),
                                  .smoothing = smoothing_},
                                 static_cast<int>(rows_.rows), rows_.channels, args.workspace,
                                 counter_.data(), rows_.type, stream_);
    CheckLaunch("SoftmaxCrossEntropy");
  }

 private:
  cudaStream_t stream_;
  Rows rows_;
  float smoothing_;
  BlockCounters counter_;
};

}  // namespace

std::unique_ptr<Kernel> MakeBiasGrad(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<BiasGrad>(context, g, op);
}
std::unique_ptr<Kernel> MakeGlobalAvgPool(Context& context, const Graph& g, const Op& op) {
  const bool forward = op.type == OpType::kGlobalAvgPool;
  return std::make_unique<ImageChannels>(context, op,
                                         forward ? InputOf(g, op, 0) : OutputOf(g, op, 0));
}
std::unique_ptr<Kernel> MakeScaleChannels(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<ImageChannels>(context, op, InputOf(g, op, 0));
}
std::unique_ptr<Kernel> MakeL2Norm(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<L2Norm>(context, g, op);
}
std::unique_ptr<Kernel> MakeL2NormGrad(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<L2NormGrad>(context, g, op);
}
std::unique_ptr<Kernel> MakeSoftmaxCrossEntropy(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<SoftmaxCrossEntropy>(context, g, op);
}

}  // namespace xp::graph::cuda
