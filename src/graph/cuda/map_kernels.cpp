// Operations on the pixels of feature maps: image normalisation, max pooling, resampling.
#include "kernels/image_normalize.h"
#include "kernels/max_pool.h"
#include "kernels/resample.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/nn_kernels.h"
#include "src/graph/cuda/operands.h"

namespace xp::graph::cuda {
namespace {

class ImageNormalize : public Kernel {
 public:
  ImageNormalize(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        shape_(AsMap(InputOf(g, op, 0))),
        type_(ElementTypeOf(OutputOf(g, op, 0).dtype)),
        attrs_(std::get<NormalizeAttrs>(op.attrs)) {}

  void Run(const KernelArgs& args) override {
    kernels::ImageNormalize(args.In<uint8_t>(0), args.In<int32_t>(1), args.out[0], shape_.n,
                            shape_.h, shape_.w, attrs_.mean, attrs_.std, type_, stream_);
    CheckLaunch("ImageNormalize");
  }

 private:
  cudaStream_t stream_;
  kernels::MapShape shape_;
  kernels::ElementType type_;
  NormalizeAttrs attrs_;
};

class MaxPool : public Kernel {
 public:
  MaxPool(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream), type_(ElementTypeOf(InputOf(g, op, 0).dtype)) {
    const auto& attrs = std::get<PoolAttrs>(op.attrs);
    window_ = {attrs.kernel, attrs.stride, attrs.pad};
    gradient_ = op.type == OpType::kMaxPoolGrad;
    in_ = AsMap(gradient_ ? OutputOf(g, op, 0) : InputOf(g, op, 0));
    out_ = AsMap(gradient_ ? InputOf(g, op, 0) : OutputOf(g, op, 0));
  }

  void Run(const KernelArgs& args) override {
    if (gradient_) {
      kernels::MaxPoolGrad(args.in[0], args.In<uint8_t>(1), args.out[0], in_, out_, window_, type_,
                           stream_);
    } else {
      kernels::MaxPool(args.in[0], args.out[0], OptionalOut<uint8_t>(args, 1), in_, out_, window_,
                       type_, stream_);
    }
    CheckLaunch("MaxPool");
  }

 private:
  cudaStream_t stream_;
  kernels::ElementType type_;
  kernels::PoolWindow window_;
  kernels::MapShape in_, out_;
  bool gradient_ = false;
};

class Resample : public Kernel {
 public:
  Resample(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        op_(op.type),
        in_(AsMap(InputOf(g, op, 0))),
        out_(AsMap(OutputOf(g, op, 0))),
        type_(ElementTypeOf(InputOf(g, op, 0).dtype)) {}

  void Run(const KernelArgs& args) override {
    switch (op_) {
      case OpType::kUpsampleAdd:
        kernels::UpsampleAdd(args.in[0], args.in[1], args.out[0], in_, out_, type_, stream_);
        break;
      case OpType::kUpsampleGrad:
        kernels::UpsampleGrad(args.in[0], args.out[0], out_, in_, type_, stream_);
        break;
      case OpType::kSubsample:
        kernels::Subsample(args.in[0], args.out[0], in_, out_, type_, stream_);
        break;
      default:
        kernels::SubsampleGrad(args.in[0], args.out[0], out_, in_, type_, stream_);
    }
    CheckLaunch(OpName(op_));
  }

 private:
  cudaStream_t stream_;
  OpType op_;
  kernels::MapShape in_, out_;
  kernels::ElementType type_;
};

}  // namespace

std::unique_ptr<Kernel> MakeImageNormalize(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<ImageNormalize>(context, g, op);
}
std::unique_ptr<Kernel> MakeMaxPool(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<MaxPool>(context, g, op);
}
std::unique_ptr<Kernel> MakeMaxPoolGrad(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<MaxPool>(context, g, op);
}
std::unique_ptr<Kernel> MakeResample(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Resample>(context, g, op);
}

}  // namespace xp::graph::cuda
