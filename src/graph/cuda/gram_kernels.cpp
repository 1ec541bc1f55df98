// Gram statistics: products by cuBLAS, the rest by kernels/gram.cu.
#include "kernels/bias_grad.h"
#include "kernels/gram.h"
#include "kernels/scratch.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/cublas_library.h"
#include "src/graph/cuda/device_array.h"
#include "src/graph/cuda/nn_kernels.h"
#include "src/graph/cuda/operands.h"

namespace xp::graph::cuda {
namespace {

class GramStatistics : public Kernel {
 public:
  GramStatistics(Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        cublas_(context.cublas->Get()),
        tf32_(context.options.tf32),
        dtype_(InputOf(g, op, 0).dtype),
        a_(InputOf(g, op, 0)),
        outputs_(static_cast<int>(InputOf(g, op, 1).shape.at(0))),
        attrs_(std::get<NormAttrs>(op.attrs)),
        plan_(kernels::PlanBiasGrad(a_.rows, a_.channels, a_.type, context.device.multiprocessors)),
        counters_(kernels::BiasGradCounters(plan_)) {}

  size_t WorkspaceBytes() const override { return PartsAt(nullptr).bytes; }

  void Run(const KernelArgs& args) override {
    if (a_.rows == 0) return;
    const int channels = a_.channels;
    const auto rows = static_cast<float>(a_.rows);
    const Parts parts = PartsAt(args.workspace);
    kernels::BiasGrad(args.in[0], parts.sum, plan_, parts.partial, counters_.data(), a_.type,
                      stream_);
    cublas_.TransposedProduct(args.in[0], channels, args.in[0], channels, a_.rows, dtype_, tf32_,
                              parts.gram, parts.products);
    kernels::GramCentre({.sum = parts.sum,
                         .gram = parts.gram,
                         .centre = args.Out<float>(4),
                         .w = args.in[1],
                         .wide = parts.wide,
                         .rows = rows,
                         .channels = channels,
                         .outputs = outputs_},
                        a_.type, stream_);
    const float* w = parts.wide != nullptr ? parts.wide : args.In<float>(1);
    cublas_.Product(w, parts.gram, outputs_, channels, channels, args.Out<float>(5),
                    parts.products);
    kernels::GramStatistics({.w = w,
                             .product = args.Out<float>(5),
                             .centre = args.Out<float>(4),
                             .mean = args.In<float>(2),
                             .var = args.In<float>(3),
                             .mean_after = args.Out<float>(2),
                             .var_after = args.Out<float>(3),
                             .save_mean = args.Out<float>(0),
                             .save_invstd = args.Out<float>(1),
                             .rows = rows,
                             .eps = attrs_.eps,
                             .momentum = attrs_.momentum,
                             .channels = channels,
                             .outputs = outputs_},
                            stream_);
    CheckLaunch("GramStatistics");
  }

 private:
  struct Parts {
    void *products, *partial;
    float *sum, *gram, *wide;
    size_t bytes;
  };
  Parts PartsAt(void* base) const {
    kernels::Scratch scratch(base);
    Parts p{};
    p.products = scratch.Take<char>(static_cast<int64_t>(Cublas::kWorkspaceBytes));
    p.partial = scratch.Take<char>(static_cast<int64_t>(kernels::BiasGradScratch(plan_)));
    p.sum = scratch.Take<float>(a_.channels);
    p.gram = scratch.Take<float>(int64_t{a_.channels} * a_.channels);
    if (dtype_ != DType::kF32) p.wide = scratch.Take<float>(int64_t{outputs_} * a_.channels);
    p.bytes = scratch.used();
    return p;
  }

  cudaStream_t stream_;
  Cublas& cublas_;
  bool tf32_;
  DType dtype_;
  Rows a_;
  int outputs_;
  NormAttrs attrs_;
  kernels::ColumnPlan plan_;
  BlockCounters counters_;
};

class GramGrad : public Kernel {
 public:
  GramGrad(Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        cublas_(context.cublas->Get()),
        tf32_(context.options.tf32),
        dtype_(InputOf(g, op, 1).dtype),
        a_(InputOf(g, op, 1)),
        outputs_(static_cast<int>(InputOf(g, op, 2).shape.at(0))) {}

  size_t WorkspaceBytes() const override { return PartsAt(nullptr).bytes; }

  void Run(const KernelArgs& args) override {
    if (a_.rows == 0) return;
    const int channels = a_.channels;
    const Parts parts = PartsAt(args.workspace);
    cublas_.TransposedProduct(args.in[0], outputs_, args.in[1], channels, a_.rows, dtype_, tf32_,
                              parts.cross, parts.products);
    kernels::GramGradRows({.cross = parts.cross,
                           .product = args.In<float>(3),
                           .centre = args.In<float>(4),
                           .dbias = args.In<float>(5),
                           .scale = args.In<float>(6),
                           .save_mean = args.In<float>(7),
                           .save_invstd = args.In<float>(8),
                           .w = args.in[2],
                           .dw = args.out[0],
                           .dscale = args.Out<float>(1),
                           .scaled = args.out[2],
                           .wide = parts.wide,
                           .scaled_wide = parts.scaled_wide,
                           .constant = parts.constant,
                           .rows = static_cast<float>(a_.rows),
                           .channels = channels,
                           .outputs = outputs_},
                          a_.type, stream_);
    const float* w = parts.wide != nullptr ? parts.wide : args.In<float>(2);
    cublas_.TransposedProduct(w, channels, parts.scaled_wide, channels, outputs_, DType::kF32,
                              false, parts.mix, parts.products);
    kernels::GramGradColumns(parts.mix, args.out[3], parts.constant, w, args.Out<float>(4),
                             channels, outputs_, a_.type, stream_);
    CheckLaunch("GramGrad");
  }

 private:
  struct Parts {
    void* products;
    float *cross, *wide, *scaled_wide, *constant, *mix;
    size_t bytes;
  };
  Parts PartsAt(void* base) const {
    kernels::Scratch scratch(base);
    const int64_t weights = int64_t{outputs_} * a_.channels;
    Parts p{};
    p.products = scratch.Take<char>(static_cast<int64_t>(Cublas::kWorkspaceBytes));
    p.cross = scratch.Take<float>(weights);
    if (dtype_ != DType::kF32) p.wide = scratch.Take<float>(weights);
    p.scaled_wide = scratch.Take<float>(weights);
    p.constant = scratch.Take<float>(outputs_);
    p.mix = scratch.Take<float>(int64_t{a_.channels} * a_.channels);
    p.bytes = scratch.used();
    return p;
  }

  cudaStream_t stream_;
  Cublas& cublas_;
  bool tf32_;
  DType dtype_;
  Rows a_;
  int outputs_;
};

}  // namespace

std::unique_ptr<Kernel> MakeGram(Context& context, const Graph& g, const Op& op) {
  if (op.type == OpType::kGramStatistics) return std::make_unique<GramStatistics>(context, g, op);
  return std::make_unique<GramGrad>(context, g, op);
}

}  // namespace xp::graph::cuda
