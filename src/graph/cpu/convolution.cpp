// Convolution and its gradients: oneDNN does the work (onednn.h); the bias gradient is a sum over
// rows of our own.
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "exp/graph/memory_plan.h"
#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/norm.h"
#include "src/graph/cpu/onednn_kernel.h"
#include "src/graph/cpu/parallel.h"
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

// In bf16 oneDNN multiplies matrices faster than it convolves by 1 x 1, weight gradients two to ten
// times (AMX, oneDNN 2.6: docs/cpu.md), and takes the weights as they are.
bool IsProduct(const ConvProblem& p) {
  return p.type == DType::kBF16 && p.kernel_height == 1 && p.kernel_width == 1 && p.groups == 1 &&
         p.pad == std::array{0, 0};
}

// Of all pixels that the output has.
LinearProblem AsProduct(const ConvProblem& p) {
  return {
      p.batch * p.out_height * p.out_width, p.in_channels, p.out_channels, p.bias, p.relu, p.type};
}

std::unique_ptr<Kernel> Make(const Context& context, const ConvProblem& problem,
                             Direction direction) {
  std::unique_ptr<OnednnOp> op;
  if (IsProduct(problem) && problem.stride == std::array{1, 1}) {
    op = MakeProduct(AsProduct(problem), direction, context.threads);
  }
  if (op == nullptr) op = MakeConvolution(problem, direction, context.threads);
  return OnednnKernel::Of(std::move(op), problem.bias);
}

// Does the weight gradient pay as a product with what each output pixel reads, side by side
// (im2col)? Where oneDNN's own strides or has maps of few columns it takes two to ten times as long
// (docs/cpu.md).
bool PaysAsIm2col(const ConvProblem& p) {
  constexpr int64_t kNarrow = 8, kMostBytes = int64_t{32} << 20;
  if (p.type != DType::kBF16 || p.groups != 1 || p.in_channels % 16 != 0) return false;
  const bool strides = p.stride != std::array{1, 1};
  const int64_t reads = p.kernel_height * p.kernel_width * p.in_channels;
  const int64_t bytes =
      p.batch * p.out_height * p.out_width * reads * static_cast<int64_t>(DTypeSize(p.type));
  return (strides || p.out_width <= kNarrow) && (IsProduct(p) || bytes <= kMostBytes);
}

class Im2colWeightGrad : public Kernel {
 public:
  // Null where oneDNN has no fast code for the product.
  static std::unique_ptr<Kernel> Of(const Context& context, const ConvProblem& p) {
    LinearProblem product = AsProduct(p);
    product.in_features *= p.kernel_height * p.kernel_width;  // weights are ohwi
    auto op = MakeProduct(product, Direction::kWeightGrad, context.threads);
    if (op == nullptr) return nullptr;
    return std::make_unique<Im2colWeightGrad>(context, p, std::move(op));
  }
  Im2colWeightGrad(const Context& context, const ConvProblem& p, std::unique_ptr<OnednnOp> op)
      : threads_(context.threads),
        p_(p),
        pixel_bytes_(p.in_channels * static_cast<int64_t>(DTypeSize(p.type))),
        row_bytes_(p.out_width * p.kernel_height * p.kernel_width * pixel_bytes_),
        op_(std::move(op)) {
    const auto bytes = static_cast<size_t>(p.batch * p.out_height * row_bytes_);
    columns_bytes_ = (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  }

  size_t WorkspaceBytes() const override { return columns_bytes_ + op_->WorkspaceBytes(); }
  void Run(const KernelArgs& args) override {
    const auto* x = static_cast<const char*>(args.in[0]);
    auto* columns = static_cast<char*>(args.workspace);
    ParallelFor(threads_, p_.batch * p_.out_height, [&](int64_t row) {
      const char* image = x + row / p_.out_height * p_.height * p_.width * pixel_bytes_;
      FillRow(image, row % p_.out_height, columns + row * row_bytes_);
    });
    op_->Run(columns, args.in[1], nullptr, args.out[0], columns + columns_bytes_);
  }

 private:
  // What the output pixels of row y read.
  void FillRow(const char* image, int64_t y, char* to) const {
    for (int64_t x = 0; x < p_.out_width; ++x) {
      for (int64_t i = 0; i < p_.kernel_height; ++i) {
        const int64_t from_y = y * p_.stride[0] - p_.pad[0] + i * p_.dilation[0];
        for (int64_t j = 0; j < p_.kernel_width; ++j, to += pixel_bytes_) {
          const int64_t from_x = x * p_.stride[1] - p_.pad[1] + j * p_.dilation[1];
          const auto bytes = static_cast<size_t>(pixel_bytes_);
          if (from_y < 0 || from_y >= p_.height || from_x < 0 || from_x >= p_.width) {
            std::memset(to, 0, bytes);
          } else {
            std::memcpy(to, image + (from_y * p_.width + from_x) * pixel_bytes_, bytes);
          }
        }
      }
    }
  }

  int threads_;
  ConvProblem p_;
  int64_t pixel_bytes_, row_bytes_;
  std::unique_ptr<OnednnOp> op_;
  size_t columns_bytes_ = 0;
};

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
  const bool product = IsProduct(p) && p.stride == std::array{1, 1};
  if (!product && PaysAsIm2col(p)) {
    if (auto kernel = Im2colWeightGrad::Of(context, p)) return kernel;
  }
  return Make(context, p, Direction::kWeightGrad);
}
std::unique_ptr<Kernel> MakeBiasGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<BiasGrad>(context, g, op);
}

}  // namespace xp::graph::cpu
