// The first layer of a ResNet, straight from the image.
#include "kernels/stem_conv.h"

#include <limits>

#include "src/graph/cuda/check.h"
#include "src/graph/cuda/conv_variants.h"
#include "src/graph/cuda/element_type.h"
#include "src/graph/cuda/own_conv.h"

namespace xp::graph::cuda {
namespace {

class StemConv : public ConvPlan {
 public:
  StemConv(const ConvProblem& problem, const OwnConvTarget& target)
      : kind_(problem.kind),
        relu_(problem.relu),
        bias_(problem.bias),
        shape_{static_cast<int>(problem.n), static_cast<int>(problem.h),
               static_cast<int>(problem.w), static_cast<int>(problem.p),
               static_cast<int>(problem.q)},
        multiprocessors_(target.multiprocessors),
        type_(ElementTypeOf(problem.type)),
        stream_(target.stream) {}

  size_t workspace_bytes() const override {
    if (kind_ == ConvKind::kForward) return 0;
    return kernels::StemConvGradScratch(shape_, multiprocessors_);
  }

  void Run(const ConvBuffers& b, void* workspace) override {
    if (kind_ == ConvKind::kForward) {
      kernels::StemConv(b.x, b.w, bias_ ? static_cast<const float*>(b.bias) : nullptr, b.y, shape_,
                        relu_, multiprocessors_, type_, stream_);
    } else {
      kernels::StemConvGrad(b.x, b.y, b.w, shape_, multiprocessors_, workspace, type_, stream_);
    }
    CheckLaunch("a stem's convolution");
  }

 private:
  ConvKind kind_;
  bool relu_, bias_;
  kernels::StemShape shape_;
  int multiprocessors_;
  kernels::ElementType type_;
  cudaStream_t stream_;
};

}  // namespace

std::unique_ptr<ConvPlan> MakeStemConv(const ConvProblem& problem, const OwnConvTarget& target) {
  const bool fits = IsStem(problem) && problem.k == kernels::kStemChannels &&
                    problem.kind != ConvKind::kDataGrad &&
                    (problem.type != DType::kF32 || problem.tf32) &&
                    problem.n * problem.h * problem.w < std::numeric_limits<int>::max() / 3;
  if (!fits || !kernels::StemConvRuns()) return nullptr;
  return std::make_unique<StemConv>(problem, target);
}

}  // namespace xp::graph::cuda
