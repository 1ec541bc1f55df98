// The optimizers: kSgd, kAdam (and AdamW), kLars. Rules as PyTorch's torch.optim.SGD, Adam, AdamW;
// LARS: You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017.
// Everything is skipped when factor is 0 (a gradient that isn't finite, kClipGrad).
#include <algorithm>
#include <cmath>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"
#include "src/graph/cpu/update_segments.h"

namespace xp::graph::cpu {
namespace {

// The gradient as the rules use it: unscaled, clipped by value.
struct Unscale {
  float factor;
  float max_value;  // 0: no clipping by value
  float operator()(float g) const {
    g *= factor;
    return max_value > 0 ? std::min(std::max(g, -max_value), max_value) : g;
  }
};

float FactorOf(const KernelArgs& args, size_t index) {
  const float* factor = args.In<float>(index);
  return factor != nullptr ? *factor : 1.0f;
}

class UpdateKernel : public Kernel {
 public:
  // `narrow_output`: which output is the parameters' copy in the compute type.
  UpdateKernel(const Context& context, const Graph& g, const Op& op, size_t narrow_output)
      : threads_(context.threads),
        compute_(g.compute()),
        attrs_(std::get<UpdateAttrs>(op.attrs)),
        chunks_(CutSegments(attrs_.segments)),
        narrow_output_(narrow_output),
        narrows_(IsNarrow(compute_) && HasOutput(op, narrow_output)) {}

 protected:
  const Segment& SegmentOf(const Chunk& chunk) const {
    return attrs_.segments[static_cast<size_t>(chunk.segment)];
  }
  // From the chunk's first element on; `scratch` as GradientOf's.
  const float* Gradient(const KernelArgs& args, const Chunk& chunk, float* scratch) const {
    return GradientOf(args, SegmentOf(chunk), chunk, compute_, scratch, attrs_.use_accumulated);
  }
  void NarrowParams(const KernelArgs& args, const Chunk& chunk) const {
    if (!narrows_) return;
    Narrow(compute_, args.Out<float>(0) + chunk.begin, chunk.end - chunk.begin,
           args.Out<uint16_t>(narrow_output_) + chunk.begin);
  }
  template <typename Body>
  void ForEachChunk(const Body& body) const {
    const auto count = static_cast<int64_t>(chunks_.size());
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (int64_t i = 0; i < count; ++i) body(chunks_[static_cast<size_t>(i)], i);
  }

  int threads_;
  DType compute_;
  UpdateAttrs attrs_;
  std::vector<Chunk> chunks_;

 private:
  size_t narrow_output_;
  bool narrows_;
};

struct SgdRates {
  float momentum, decay, rate, lr;
  bool nesterov;
};

// m = mu * m + g; p -= lr * (nesterov ? g + mu * m : m), where g = rate * (gradient + decay * p).
XP_SIMD_CLONES void SgdRange(const SgdRates& r, Unscale unscale, const float* __restrict grad,
                             int64_t n, float* __restrict param, float* __restrict momentum) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float u = grad[i] * unscale.factor;
    u = unscale.max_value > 0 ? std::min(std::max(u, -unscale.max_value), unscale.max_value) : u;
    const float g = r.rate * (u + r.decay * param[i]);
    const float m = r.momentum * momentum[i] + g;
    momentum[i] = m;
    param[i] -= r.lr * (r.nesterov ? g + r.momentum * m : m);
  }
}

void SgdChunk(const KernelArgs& args, const SgdRates& rates, Unscale unscale, const Chunk& chunk,
              const float* grad) {
  SgdRange(rates, unscale, grad, chunk.end - chunk.begin, args.Out<float>(0) + chunk.begin,
           args.Out<float>(1) + chunk.begin);
}

class SgdKernel : public UpdateKernel {
 public:
  SgdKernel(const Context& context, const Graph& g, const Op& op)
      : UpdateKernel(context, g, op, 2) {}

  void Run(const KernelArgs& args) override {
    const Unscale unscale{FactorOf(args, 6), attrs_.max_value};
    if (unscale.factor == 0) return;
    const float lr = *args.In<float>(5);
    ForEachChunk([&](const Chunk& chunk, int64_t) {
      float wide[kChunkElements];
      const Segment& segment = SegmentOf(chunk);
      SgdChunk(args,
               {attrs_.momentum, segment.decay, 1.0f, lr * segment.lr_multiplier, attrs_.nesterov},
               unscale, chunk, Gradient(args, chunk, wide));
      NarrowParams(args, chunk);
    });
  }
};

class LarsKernel : public UpdateKernel {
 public:
  LarsKernel(const Context& context, const Graph& g, const Op& op)
      : UpdateKernel(context, g, op, 2) {}

  // Sums of squares of the parameters and of the gradients a chunk, then the rates a segment.
  size_t WorkspaceBytes() const override {
    return (2 * chunks_.size() + attrs_.segments.size()) * sizeof(double);
  }

  void Run(const KernelArgs& args) override {
    const Unscale unscale{FactorOf(args, 6), attrs_.max_value};
    if (unscale.factor == 0) return;
    const float lr = *args.In<float>(5);
    auto* squares = static_cast<double*>(args.workspace);
    double* rates = squares + 2 * chunks_.size();
    ForEachChunk([&](const Chunk& chunk, int64_t i) {
      float wide[kChunkElements];
      const float* grad = Gradient(args, chunk, wide);
      const float* param = args.Out<float>(0) + chunk.begin;
      double p2 = 0, g2 = 0;
      for (int64_t k = 0; k < chunk.end - chunk.begin; ++k) {
        const double g = unscale(grad[k]);
        p2 += static_cast<double>(param[k]) * param[k];
        g2 += g * g;
      }
      squares[2 * i] = p2;
      squares[2 * i + 1] = g2;
    });
    ComputeRates(squares, rates);
    ForEachChunk([&](const Chunk& chunk, int64_t) {
      float wide[kChunkElements];
      const Segment& segment = SegmentOf(chunk);
      SgdChunk(args,
               {attrs_.momentum, segment.decay, static_cast<float>(rates[chunk.segment]),
                lr * segment.lr_multiplier, attrs_.nesterov},
               unscale, chunk, Gradient(args, chunk, wide));
      NarrowParams(args, chunk);
    });
  }

 private:
  void ComputeRates(const double* squares, double* rates) const {
    size_t chunk = 0;
    for (size_t s = 0; s < attrs_.segments.size(); ++s) {
      double p2 = 0, g2 = 0;
      for (; chunk < chunks_.size() && chunks_[chunk].segment == static_cast<int>(s); ++chunk) {
        p2 += squares[2 * chunk];
        g2 += squares[2 * chunk + 1];
      }
      const double p = std::sqrt(p2), g = std::sqrt(g2);
      // A layer that is still zero, or has no gradient, moves by the global rate.
      rates[s] = p > 0 && g > 0 ? attrs_.trust * p / (g + attrs_.segments[s].decay * p) : 1.0;
    }
  }
};

class AdamKernel : public UpdateKernel {
 public:
  AdamKernel(const Context& context, const Graph& g, const Op& op)
      : UpdateKernel(context, g, op, 4) {}

  void Run(const KernelArgs& args) override {
    const Unscale unscale{FactorOf(args, 8), attrs_.max_value};
    if (unscale.factor == 0) return;
    const float step = *args.In<float>(6) + 1;
    *args.Out<float>(3) = step;
    const double correction1 = 1 - std::pow(static_cast<double>(attrs_.beta1), step);
    const double correction2 = 1 - std::pow(static_cast<double>(attrs_.beta2), step);
    const auto inverse1 = static_cast<float>(1 / correction1);
    const auto inverse2 = static_cast<float>(1 / std::sqrt(correction2));
    const float lr = *args.In<float>(7);
    ForEachChunk([&](const Chunk& chunk, int64_t) {
      float wide[kChunkElements];
      const Segment& segment = SegmentOf(chunk);
      AdamChunk(chunk, Gradient(args, chunk, wide), unscale, segment.decay,
                lr * segment.lr_multiplier, inverse1, inverse2, args);
      NarrowParams(args, chunk);
    });
  }

 private:
  void AdamChunk(const Chunk& chunk, const float* grad, Unscale unscale, float decay, float lr,
                 float inverse1, float inverse2, const KernelArgs& args) const {
    float* param = args.Out<float>(0);
    float* m = args.Out<float>(1);
    float* v = args.Out<float>(2);
    const float b1 = attrs_.beta1, b2 = attrs_.beta2, eps = attrs_.eps;
    // Not as p * (1 - pull): that factor's rounding error is the same at every step and adds up.
    const float pull = attrs_.decoupled ? lr * decay : 0.0f;
    const float l2 = attrs_.decoupled ? 0.0f : decay;
    for (int64_t i = chunk.begin; i < chunk.end; ++i) {
      const float g = unscale(grad[i - chunk.begin]) + l2 * param[i];
      m[i] = b1 * m[i] + (1 - b1) * g;
      v[i] = b2 * v[i] + (1 - b2) * g * g;
      param[i] = (param[i] - pull * param[i]) -
                 lr * (m[i] * inverse1) / (std::sqrt(v[i]) * inverse2 + eps);
    }
  }
};

}  // namespace

std::unique_ptr<Kernel> MakeSgd(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<SgdKernel>(context, g, op);
}
std::unique_ptr<Kernel> MakeLars(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<LarsKernel>(context, g, op);
}
std::unique_ptr<Kernel> MakeAdam(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<AdamKernel>(context, g, op);
}

}  // namespace xp::graph::cpu
