// The parts of batch norms as step_passes.h puts them together.
#include <algorithm>

#include "kernels/norm_grad_sums.h"
#include "kernels/norm_join.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/device_array.h"
#include "src/graph/cuda/nn_kernels.h"
#include "src/graph/cuda/operands.h"
#include "src/graph/step_edit.h"

namespace xp::graph::cuda {
namespace {

class NormJoin : public Kernel {
 public:
  NormJoin(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        rows_(InputOf(g, op, 0)),
        relu_(std::get<NormAttrs>(op.attrs).relu) {
    if (!HasInput(op, 11)) return;
    pixels_ = static_cast<int>(rows_.rows / std::max<int64_t>(1, InputOf(g, op, 11).shape.at(0)));
  }

  void Run(const KernelArgs& args) override {
    kernels::NormJoin({.a = Branch(args, 0),
                       .b = Branch(args, 5),
                       .residual = OptionalIn(args, 10),
                       .gate = OptionalIn(args, 11),
                       .pixels = pixels_,
                       .y = args.out[0],
                       .mask = OptionalOut<uint8_t>(args, 1),
                       .relu = relu_},
                      rows_.rows, rows_.channels, rows_.type, stream_);
    CheckLaunch("NormJoin");
  }

 private:
  static kernels::NormBranch Branch(const KernelArgs& args, size_t at) {
    return {.x = OptionalIn(args, at),
            .scale = OptionalIn<float>(args, at + 1),
            .bias = OptionalIn<float>(args, at + 2),
            .mean = OptionalIn<float>(args, at + 3),
            .invstd = OptionalIn<float>(args, at + 4)};
  }

  cudaStream_t stream_;
  Rows rows_;
  bool relu_;
  int pixels_ = 1;
};

class NormGradSums : public Kernel {
 public:
  NormGradSums(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        rows_(InputOf(g, op, kSumsDy)),
        branches_(HasInput(op, kSumsBranch[0]) + HasInput(op, kSumsBranch[1])),
        plan_(kernels::PlanNormGradSums(rows_.rows, rows_.channels, rows_.type,
                                        context.device.multiprocessors)),
        counters_(kernels::NormGradSumsCounters(plan_)) {
    while (dys_ < kSumsMostDys && HasInput(op, kSumsDy + dys_)) ++dys_;
    if (!LastIsHalf(g, op, kSumsDy, kSumsMostDys)) return;
    even_ = EvenPixelsOf(InputOf(g, op, kSumsDy));
    --dys_;
  }

  size_t WorkspaceBytes() const override { return kernels::NormGradSumsScratch(plan_, branches_); }

  void Run(const KernelArgs& args) override {
    kernels::NormGradSumsArgs sums;
    for (size_t i = 0; i < dys_; ++i) sums.dy[i] = args.in[kSumsDy + i];
    sums.even = even_;
    if (even_.half_height > 0) sums.even.values = args.in[kSumsDy + dys_];
    sums.mask = OptionalIn<uint8_t>(args, 0);
    sums.g = args.out[0];
    for (size_t i = 0; i < 2; ++i) {
      const size_t in = kSumsBranch[i], out = kSumsBranchResult[i];
      sums.dbias[i] = OptionalOut<float>(args, out);
      if (OptionalIn(args, in) == nullptr) continue;
      sums.branch[sums.branches++] = {.x = args.in[in],
                                      .scale = args.In<float>(in + 1),
                                      .mean = args.In<float>(in + 2),
                                      .invstd = args.In<float>(in + 3),
                                      .dscale = OptionalOut<float>(args, out + 1),
                                      .coefficients = OptionalOut<float>(args, out + 2)};
    }
    kernels::NormGradSums(sums, plan_, args.workspace, counters_.data(), rows_.type, stream_);
    CheckLaunch("NormGradSums");
  }

 private:
  cudaStream_t stream_;
  Rows rows_;
  int branches_;
  size_t dys_ = 0;            // of the whole map
  kernels::EvenPixels even_;  // its size, where there is one
  kernels::ColumnPlan plan_;
  BlockCounters counters_;
};

class NormGradApply : public Kernel {
 public:
  NormGradApply(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream), rows_(InputOf(g, op, 0)) {}

  void Run(const KernelArgs& args) override {
    kernels::NormGradApply(args.in[0], args.in[1], args.In<float>(2), args.out[0], rows_.rows,
                           rows_.channels, rows_.type, stream_);
    CheckLaunch("NormGradApply");
  }

 private:
  cudaStream_t stream_;
  Rows rows_;
};

}  // namespace

std::unique_ptr<Kernel> MakeNormPart(Context& context, const Graph& g, const Op& op) {
  if (op.type == OpType::kNormJoin) return std::make_unique<NormJoin>(context, g, op);
  if (op.type == OpType::kNormGradSums) return std::make_unique<NormGradSums>(context, g, op);
  return std::make_unique<NormGradApply>(context, g, op);
}

}  // namespace xp::graph::cuda
