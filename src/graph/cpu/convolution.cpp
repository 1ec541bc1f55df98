// Convolution and its gradients: oneDNN does the work (onednn.h); the bias gradient is a sum over
// rows of our own.
#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/norm.h"
#include "src/graph/cpu/onednn_kernel.h"
#include "src/graph/cpu/shapes.h"

namespace xp::graph::cpu {
namespace {

ConvProblem Describe(const Op& op, const Tensor& x, const Tensor& w, const Tensor& y) {
  const auto& attrs = std::get<ConvAttrs>(op.attrs);
  const MapShape in = AsMap(x), out = AsMap(y);
  ConvProblem p;
  p.batch = in.n;
  p.height = in.h;
  p.width = in.w;
  p.in_channels = in.c;
  p.out_height = out.h;
  p.out_width = out.w;
  p.out_channels = out.c;
  p.kernel_height = w.shape.at(1);
  p.kernel_width = w.shape.at(2);
  p.stride = attrs.stride;
  p.pad = attrs.pad;
  p.dilation = attrs.dilation;
  p.groups = attrs.groups;
  p.type = x.dtype;
  return p;
}

std::unique_ptr<Kernel> Make(const Context& context, const ConvProblem& problem,
                             Direction direction) {
  return OnednnKernel::Of(MakeConvolution(problem, direction, context.threads), problem.bias);
}

class BiasGrad : public Kernel {
 public:
  BiasGrad(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads),
        type_(InputOf(g, op, 0).dtype),
        split_(SplitRows(AsRows(InputOf(g, op, 0)))) {}

  size_t WorkspaceBytes() const override {
    return static_cast<size_t>(GradSumFloats(threads_, split_)) * sizeof(float);
  }
  void Run(const KernelArgs& args) override {
    NormGradSums sums;
    sums.rows.dy[0] = {type_, args.in[0]};
    sums.sum = args.Out<float>(0);
    sums.scratch = static_cast<float*>(args.workspace);
    RunNormGradSums(threads_, split_, sums);
  }

 private:
  int threads_;
  DType type_;
  RowSplit split_;
};

}  // namespace

std::unique_ptr<Kernel> MakeConv2d(const Context& context, const Graph& g, const Op& op) {
  ConvProblem p = Describe(op, InputOf(g, op, 0), InputOf(g, op, 1), OutputOf(g, op, 0));
  p.bias = HasInput(op, 2);
  p.relu = std::get<ConvAttrs>(op.attrs).relu;
  return Make(context, p, Direction::kForward);
}
std::unique_ptr<Kernel> MakeConv2dDgrad(const Context& context, const Graph& g, const Op& op) {
  const ConvProblem p = Describe(op, OutputOf(g, op, 0), InputOf(g, op, 1), InputOf(g, op, 0));
  return Make(context, p, Direction::kDataGrad);
}
std::unique_ptr<Kernel> MakeConv2dWgrad(const Context& context, const Graph& g, const Op& op) {
  const ConvProblem p = Describe(op, InputOf(g, op, 0), OutputOf(g, op, 0), InputOf(g, op, 1));
  return Make(context, p, Direction::kWeightGrad);
}
std::unique_ptr<Kernel> MakeBiasGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<BiasGrad>(context, g, op);
}

}  // namespace xp::graph::cpu
