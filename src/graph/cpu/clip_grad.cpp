// kClipGrad: the norm of all trained gradients and the factor they are multiplied by before use.
// Clipping as torch.nn.utils.clip_grad_norm_: min(1, max_norm / (norm + 1e-6)).
#include <cmath>

#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/update_segments.h"

namespace xp::graph::cpu {
namespace {

class ClipGradKernel : public Kernel {
 public:
  ClipGradKernel(const Context& context, DType compute, const ClipAttrs& attrs)
      : threads_(context.threads),
        compute_(compute),
        attrs_(attrs),
        chunks_(CutSegments(attrs.segments)) {}

  size_t WorkspaceBytes() const override { return chunks_.size() * sizeof(double); }

  void Run(const KernelArgs& args) override {
    auto* partial = static_cast<double*>(args.workspace);
    const auto count = static_cast<int64_t>(chunks_.size());
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (int64_t i = 0; i < count; ++i) partial[i] = SumOfSquares(args, chunks_[i]);
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += partial[i];

    const float* loss_scale = args.In<float>(2);
    const double unscale =
        static_cast<double>(attrs_.inverse_count) / (loss_scale != nullptr ? *loss_scale : 1.0f);
    const double norm = std::sqrt(sum) * unscale;
    double factor = unscale;
    if (attrs_.max_norm > 0) factor *= std::min(1.0, attrs_.max_norm / (norm + 1e-6));
    // A square of a finite float never overflows a double: the sum is finite if all of them are.
    *args.Out<float>(0) = std::isfinite(sum) ? static_cast<float>(factor) : 0.0f;
    *args.Out<float>(1) = static_cast<float>(norm);
  }

 private:
  double SumOfSquares(const KernelArgs& args, const Chunk& chunk) const {
    const Segment& segment = attrs_.segments[static_cast<size_t>(chunk.segment)];
    float wide[kChunkElements];
    const float* g = GradientOf(args, segment, chunk, compute_, wide, attrs_.use_accumulated, 3);
    double lane[8] = {};
    for (int64_t i = 0; i < chunk.end - chunk.begin; ++i) {
      lane[i % 8] += static_cast<double>(g[i]) * g[i];
    }
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  }

  int threads_;
  DType compute_;
  ClipAttrs attrs_;
  std::vector<Chunk> chunks_;
};

}  // namespace

std::unique_ptr<Kernel> MakeClipGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<ClipGradKernel>(context, g.compute(), std::get<ClipAttrs>(op.attrs));
}

}  // namespace xp::graph::cpu
