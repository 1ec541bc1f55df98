// What else happens around an update: kAccumulate (gradients over cumulative_iters steps), kEma
// (the averaged model) and kUpdateLossScale (fp16's scale: Micikevicius et al., "Mixed precision
// training", ICLR 2018; doubling and halving as torch.amp.GradScaler).
#include <cmath>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/update_segments.h"

namespace xp::graph::cpu {
namespace {

class AccumulateKernel : public Kernel {
 public:
  AccumulateKernel(const Context& context, DType compute, const UpdateAttrs& attrs)
      : threads_(context.threads),
        compute_(compute),
        segments_(attrs.segments),
        chunks_(CutSegments(segments_)) {}

  void Run(const KernelArgs& args) override {
    const bool first = *args.In<int32_t>(3) != 0;
    const float weight = args.in.size() > 4 && args.in[4] != nullptr ? *args.In<float>(4) : 1.0f;
    float* sum = args.Out<float>(0);
    const auto count = static_cast<int64_t>(chunks_.size());
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (int64_t c = 0; c < count; ++c) {
      const Chunk& chunk = chunks_[static_cast<size_t>(c)];
      float wide[kChunkElements];
      const float* grad = GradientOf(args, segments_[static_cast<size_t>(chunk.segment)], chunk,
                                     compute_, wide, /*use_accumulated=*/false);
      float* to = sum + chunk.begin;
      for (int64_t i = 0; i < chunk.end - chunk.begin; ++i)
        to[i] = first ? weight * grad[i] : to[i] + weight * grad[i];
    }
  }

 private:
  int threads_;
  DType compute_;
  std::vector<Segment> segments_;
  std::vector<Chunk> chunks_;
};

class EmaKernel : public Kernel {
 public:
  EmaKernel(const Context& context, int64_t elements)
      : threads_(context.threads), elements_(elements) {}

  void Run(const KernelArgs& args) override {
    const float* param = args.In<float>(0);
    const float momentum = *args.In<float>(2);
    float* ema = args.Out<float>(0);
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (int64_t i = 0; i < elements_; ++i) ema[i] = (1 - momentum) * ema[i] + momentum * param[i];
  }

 private:
  int threads_;
  int64_t elements_;
};

class UpdateLossScaleKernel : public Kernel {
 public:
  explicit UpdateLossScaleKernel(const LossScaleAttrs& attrs) : attrs_(attrs) {}

  void Run(const KernelArgs& args) override {
    // Halving stops well above zero: the scale's inverse must stay finite.
    constexpr float kMinScale = 1.0f / 16777216;
    const bool overflow = *args.In<float>(0) == 0;
    float scale = *args.In<float>(1);
    float good = *args.In<float>(2);
    if (overflow) {
      scale = std::max(scale * 0.5f, kMinScale);
      good = 0;
    } else if (++good >= static_cast<float>(attrs_.interval)) {
      scale = std::min(scale * 2, attrs_.max_scale);
      good = 0;
    }
    *args.Out<float>(0) = scale;
    *args.Out<float>(1) = good;
  }

 private:
  LossScaleAttrs attrs_;
};

}  // namespace

std::unique_ptr<Kernel> MakeAccumulate(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<AccumulateKernel>(context, g.compute(), std::get<UpdateAttrs>(op.attrs));
}
std::unique_ptr<Kernel> MakeEma(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<EmaKernel>(context, g.tensor(op.outputs[0]).elements());
}
std::unique_ptr<Kernel> MakeUpdateLossScale(const Context&, const Graph&, const Op& op) {
  return std::make_unique<UpdateLossScaleKernel>(std::get<LossScaleAttrs>(op.attrs));
}

}  // namespace xp::graph::cpu
