// Squeeze-and-excitation folded into the batch norm before it.
#include "kernels/squeeze.h"

#include "exp/base/error.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/device_array.h"
#include "src/graph/cuda/nn_kernels.h"
#include "src/graph/cuda/operands.h"
#include "src/graph/step_edit.h"

namespace xp::graph::cuda {
namespace {

// Where each op has its map [N, H, W, C].
size_t MapOperand(OpType type) {
  switch (type) {
    case OpType::kSqueezeSums:
      return 4;
    case OpType::kSqueezeFactors:
      return 7;
    default:
      return 0;
  }
}

class SqueezePart : public Kernel {
 public:
  SqueezePart(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        op_(op.type),
        type_(ElementTypeOf(InputOf(g, op, MapOperand(op.type)).dtype)),
        shape_(ShapeOf(g, op)),
        counters_(op.type == OpType::kSqueezeStatistics ? kernels::SqueezeStatisticsCounters(shape_)
                                                        : 0) {
    if (const auto* norm = std::get_if<NormAttrs>(&op.attrs)) attrs_ = *norm;
  }

  size_t WorkspaceBytes() const override {
    return op_ == OpType::kSqueezeStatistics ? kernels::SqueezeStatisticsScratch(shape_) : 0;
  }

  void Run(const KernelArgs& args) override {
    switch (op_) {
      case OpType::kSqueezeStatistics:
        Statistics(args);
        break;
      case OpType::kSqueezeSums:
        Sums(args);
        break;
      case OpType::kSqueezeFactors:
        Factors(args);
        break;
      default:
        kernels::SqueezeApply(args.in[0], args.in[1], args.In<float>(2), args.In<float>(3),
                              args.In<float>(4), args.out[0], shape_, type_, stream_);
    }
    CheckLaunch(OpName(op_));
  }

 private:
  static kernels::SqueezeShape ShapeOf(const Graph& g, const Op& op) {
    const kernels::MapShape map = AsMap(InputOf(g, op, MapOperand(op.type)));
    if (map.c % 8 != 0) {
      throw UsageError({.what = "squeeze-and-excitation can't be folded into a batch norm here",
                        .where = op.name,
                        .expected = "channels by eight",
                        .next = "set EXP_FUSION_OFF=squeeze"});
    }
    return {map.n, map.h * map.w, map.c};
  }

  void Statistics(const KernelArgs& args) {
    kernels::SqueezeStatistics({.x = args.in[0],
                                .scale = args.In<float>(1),
                                .bias = args.In<float>(2),
                                .mean = args.In<float>(3),
                                .var = args.In<float>(4),
                                .mean_after = args.Out<float>(2),
                                .var_after = args.Out<float>(3),
                                .save_mean = args.Out<float>(0),
                                .save_invstd = args.Out<float>(1),
                                .image_mean = args.Out<float>(4),
                                .pooled = args.out[5],
                                .eps = attrs_.eps,
                                .momentum = attrs_.momentum},
                               shape_, args.workspace, counters_.data(), type_, stream_);
  }

  void Sums(const KernelArgs& args) {
    kernels::SqueezeSumsArgs sums{};
    for (size_t i = 0; i < kSumsMostDys; ++i) sums.dy[i] = OptionalIn(args, kSumsDy + i);
    sums.mask = OptionalIn<uint8_t>(args, 0);
    sums.x = args.in[4];
    sums.scale = args.In<float>(5);
    sums.bias = args.In<float>(6);
    sums.mean = args.In<float>(7);
    sums.invstd = args.In<float>(8);
    sums.g = OptionalOut(args, 0);
    sums.sums = args.Out<float>(1);
    sums.dgate = args.out[2];
    kernels::SqueezeSums(sums, shape_, type_, stream_);
  }

  void Factors(const KernelArgs& args) {
    kernels::SqueezeFactors({.sums = args.In<float>(0),
                             .gate = args.in[1],
                             .dpooled = args.in[2],
                             .image_mean = args.In<float>(3),
                             .scale = args.In<float>(4),
                             .mean = args.In<float>(5),
                             .invstd = args.In<float>(6),
                             .dscale = OptionalOut<float>(args, 0),
                             .dbias = OptionalOut<float>(args, 1),
                             .slopes = args.Out<float>(2),
                             .shifts = args.Out<float>(3),
                             .common = args.Out<float>(4)},
                            shape_, type_, stream_);
  }

  cudaStream_t stream_;
  OpType op_;
  kernels::ElementType type_;
  kernels::SqueezeShape shape_;
  NormAttrs attrs_;
  BlockCounters counters_;
};

}  // namespace

std::unique_ptr<Kernel> MakeSqueezePart(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<SqueezePart>(context, g, op);
}

}  // namespace xp::graph::cuda
