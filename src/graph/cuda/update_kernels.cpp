// Gradient clipping, the optimizers and what else happens around an update. The trained segments
// are cut into chunks when a kernel is created; the list stays in device memory.
#include <algorithm>
#include <stdexcept>

#include "kernels/accumulate.h"
#include "kernels/clip_grad.h"
#include "kernels/optimizer.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/device_array.h"
#include "src/graph/cuda/nn_kernels.h"
#include "src/graph/cuda/operands.h"

namespace xp::graph::cuda {
namespace {

using kernels::UpdateChunk;

std::vector<UpdateChunk> Cut(const std::vector<Segment>& segments) {
  std::vector<UpdateChunk> chunks;
  for (size_t s = 0; s < segments.size(); ++s) {
    const Segment& segment = segments[s];
    if (segment.offset % 8 != 0 || segment.grad_offset % 8 != 0)
      throw std::logic_error("a segment must begin at a multiple of 8");
    const int64_t end = segment.offset + segment.count;
    for (int64_t begin = segment.offset; begin < end; begin += kernels::kUpdateChunk) {
      const int64_t count = std::min<int64_t>(kernels::kUpdateChunk, end - begin);
      chunks.push_back({.begin = begin,
                        .count = static_cast<int32_t>(count),
                        .segment = static_cast<int32_t>(s),
                        .lr_multiplier = segment.lr_multiplier,
                        .decay = segment.decay,
                        .grad_begin = segment.grad_offset + (begin - segment.offset),
                        .compute_grad = segment.compute_grad ? 1 : 0});
    }
  }
  return chunks;
}

class ChunkList {
 public:
  explicit ChunkList(const std::vector<Segment>& segments)
      : chunks_(Cut(segments)), device_(chunks_) {}
  const UpdateChunk* device() const { return device_.data(); }
  int count() const { return static_cast<int>(chunks_.size()); }
  // Which chunks each segment has.
  std::vector<kernels::SegmentChunks> BySegment(const std::vector<Segment>& segments) const {
    std::vector<kernels::SegmentChunks> result(segments.size());
    for (size_t s = 0; s < segments.size(); ++s) result[s].decay = segments[s].decay;
    for (int i = count(); i-- > 0;) {
      auto& of = result[static_cast<size_t>(chunks_[static_cast<size_t>(i)].segment)];
      of.first = i;
      ++of.count;
    }
    return result;
  }

 private:
  std::vector<UpdateChunk> chunks_;
  DeviceArray<UpdateChunk> device_;
};

// The type of grad_compute and param_compute; f32 where there are none.
kernels::ElementType ComputeType(const Graph& g, const Op& op) {
  return ElementTypeOf(HasInput(op, 1) ? InputOf(g, op, 1).dtype : g.compute());
}

kernels::Gradients GradientsOf(const KernelArgs& args, bool use_accumulated, size_t accumulated) {
  return {.grad = args.In<float>(0),
          .compute = args.in[1],
          .accumulated = use_accumulated ? args.In<float>(accumulated) : nullptr};
}

class ClipGrad : public Kernel {
 public:
  ClipGrad(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        attrs_(std::get<ClipAttrs>(op.attrs)),
        chunks_(attrs_.segments),
        counter_(1),
        compute_(ComputeType(g, op)) {}

  size_t WorkspaceBytes() const override { return kernels::ClipGradScratch(chunks_.count()); }

  void Run(const KernelArgs& args) override {
    kernels::ClipGrad({.gradients = GradientsOf(args, attrs_.use_accumulated, 3),
                       .loss_scale = OptionalIn<float>(args, 2),
                       .factor = args.Out<float>(0),
                       .norm = args.Out<float>(1),
                       .max_norm = attrs_.max_norm,
                       .inverse_count = attrs_.inverse_count},
                      chunks_.device(), chunks_.count(), args.workspace, counter_.data(), compute_,
                      stream_);
    CheckLaunch("ClipGrad");
  }

 private:
  cudaStream_t stream_;
  ClipAttrs attrs_;
  ChunkList chunks_;
  BlockCounters counter_;
  kernels::ElementType compute_;
};

class Sgd : public Kernel {
 public:
  Sgd(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        lars_(op.type == OpType::kLars),
        attrs_(std::get<UpdateAttrs>(op.attrs)),
        chunks_(attrs_.segments),
        segments_(chunks_.BySegment(attrs_.segments)),
        compute_(ComputeType(g, op)) {}

  size_t WorkspaceBytes() const override {
    return lars_ ? kernels::LarsScratch(chunks_.count(), Segments()) : 0;
  }

  void Run(const KernelArgs& args) override {
    const kernels::SgdArgs sgd{.common = {.gradients = GradientsOf(args, attrs_.use_accumulated, 2),
                                          .lr = args.In<float>(5),
                                          .factor = OptionalIn<float>(args, 6),
                                          .max_value = attrs_.max_value,
                                          .param = args.Out<float>(0),
                                          .param_compute = OptionalOut(args, 2)},
                               .momentum_buffer = args.Out<float>(1),
                               .momentum = attrs_.momentum,
                               .nesterov = attrs_.nesterov,
                               .rates = nullptr};
    if (lars_) {
      kernels::Lars(sgd, attrs_.trust, chunks_.device(), chunks_.count(), segments_.data(),
                    Segments(), args.workspace, compute_, stream_);
    } else {
      kernels::Sgd(sgd, chunks_.device(), chunks_.count(), compute_, stream_);
    }
    CheckLaunch("Sgd");
  }

 private:
  int Segments() const { return static_cast<int>(attrs_.segments.size()); }

  cudaStream_t stream_;
  bool lars_;
  UpdateAttrs attrs_;
  ChunkList chunks_;
  DeviceArray<kernels::SegmentChunks> segments_;
  kernels::ElementType compute_;
};

class Adam : public Kernel {
 public:
  Adam(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        attrs_(std::get<UpdateAttrs>(op.attrs)),
        chunks_(attrs_.segments),
        compute_(ComputeType(g, op)) {}

  size_t WorkspaceBytes() const override { return kernels::kAdamScratch; }

  void Run(const KernelArgs& args) override {
    kernels::Adam({.common = {.gradients = GradientsOf(args, attrs_.use_accumulated, 2),
                              .lr = args.In<float>(7),
                              .factor = OptionalIn<float>(args, 8),
                              .max_value = attrs_.max_value,
                              .param = args.Out<float>(0),
                              .param_compute = OptionalOut(args, 4)},
                   .first = args.Out<float>(1),
                   .second = args.Out<float>(2),
                   .step = args.Out<float>(3),
                   .beta1 = attrs_.beta1,
                   .beta2 = attrs_.beta2,
                   .eps = attrs_.eps,
                   .decoupled = attrs_.decoupled},
                  chunks_.device(), chunks_.count(), args.workspace, compute_, stream_);
    CheckLaunch("Adam");
  }

 private:
  cudaStream_t stream_;
  UpdateAttrs attrs_;
  ChunkList chunks_;
  kernels::ElementType compute_;
};

class Accumulate : public Kernel {
 public:
  Accumulate(const Context& context, const Graph& g, const Op& op)
      : stream_(context.stream),
        chunks_(std::get<UpdateAttrs>(op.attrs).segments),
        compute_(ComputeType(g, op)) {}

  void Run(const KernelArgs& args) override {
    kernels::Accumulate(GradientsOf(args, false, 0), args.Out<float>(0), args.In<int32_t>(3),
                        OptionalIn<float>(args, 4), chunks_.device(), chunks_.count(), compute_,
                        stream_);
    CheckLaunch("Accumulate");
  }

 private:
  cudaStream_t stream_;
  ChunkList chunks_;
  kernels::ElementType compute_;
};

class Ema : public Kernel {
 public:
  Ema(const Context& context, int64_t n) : stream_(context.stream), n_(n) {}

  void Run(const KernelArgs& args) override {
    kernels::Ema(args.In<float>(0), args.Out<float>(0), args.In<float>(2), n_, stream_);
    CheckLaunch("Ema");
  }

 private:
  cudaStream_t stream_;
  int64_t n_;
};

class UpdateLossScale : public Kernel {
 public:
  UpdateLossScale(const Context& context, const LossScaleAttrs& attrs)
      : stream_(context.stream), attrs_(attrs) {}

  void Run(const KernelArgs& args) override {
    kernels::UpdateLossScale(args.In<float>(0), args.In<float>(1), args.In<float>(2),
                             args.Out<float>(0), args.Out<float>(1), attrs_.interval,
                             attrs_.max_scale, stream_);
    CheckLaunch("UpdateLossScale");
  }

 private:
  cudaStream_t stream_;
  LossScaleAttrs attrs_;
};

}  // namespace

std::unique_ptr<Kernel> MakeClipGrad(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<ClipGrad>(context, g, op);
}
std::unique_ptr<Kernel> MakeSgd(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Sgd>(context, g, op);
}
std::unique_ptr<Kernel> MakeAdam(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Adam>(context, g, op);
}
std::unique_ptr<Kernel> MakeAccumulate(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Accumulate>(context, g, op);
}
std::unique_ptr<Kernel> MakeEma(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<Ema>(context, OutputOf(g, op, 0).elements());
}
std::unique_ptr<Kernel> MakeUpdateLossScale(Context& context, const Graph&, const Op& op) {
  return std::make_unique<UpdateLossScale>(context, std::get<LossScaleAttrs>(op.attrs));
}

}  // namespace xp::graph::cuda
