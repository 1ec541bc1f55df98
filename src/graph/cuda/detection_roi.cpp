#include "kernels/detections.h"
#include "kernels/roi_align.h"
#include "kernels/roi_loss.h"
#include "kernels/roi_targets.h"
#include "src/graph/cuda/check.h"
#include "src/graph/cuda/detection_kernels.h"
#include "src/graph/cuda/element_type.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph::cuda {
namespace {

class RoiTargetsKernel final : public Kernel {
 public:
  RoiTargetsKernel(cudaStream_t stream, const Graph& g, const Op& op) : stream_(stream) {
    const auto& attrs = std::get<RoiTargetAttrs>(op.attrs);
    TargetShapes s = RoiTargetShapes(g, op);
    problem_ = {ToParams(attrs.matcher),
                ToParams(attrs.coder),
                s.images,
                s.proposals,
                s.boxes,
                s.samples,
                MaxPositives(s.samples, attrs.positive_fraction),
                attrs.background,
                attrs.add_ground_truth};
  }
  size_t WorkspaceBytes() const override { return kernels::RoiTargetsScratch(problem_); }
  void Run(const KernelArgs& args) override {
    kernels::RoiTargetsInputs in{args.In<kernels::Box>(0), args.In<int32_t>(1),
                                 args.In<kernels::Box>(2), args.In<int32_t>(3),
                                 args.In<int32_t>(4),      args.In<uint32_t>(5)};
    kernels::RoiTargets(problem_, in, args.Out<kernels::Box>(0), args.Out<int32_t>(1),
                        args.Out<kernels::BoxDeltas>(2), args.Out<int32_t>(3), args.workspace,
                        stream_);
    CheckLaunch("RoiTargets");
  }

 private:
  cudaStream_t stream_;
  kernels::RoiTargetsProblem problem_;
};

kernels::RoiAlignProblem AlignProblem(const Graph& g, const Op& op, DType dtype) {
  RoiAlignShapes s = MakeRoiAlignShapes(g, op);
  return {s.params, s.images, s.rois, s.channels, s.count_stride, ElementTypeOf(dtype)};
}

class RoiAlignKernel final : public Kernel {
 public:
  RoiAlignKernel(cudaStream_t stream, const Graph& g, const Op& op)
      : stream_(stream), problem_(AlignProblem(g, op, g.tensor(op.inputs[0]).dtype)) {}
  size_t WorkspaceBytes() const override { return kernels::RoiAlignScratch(problem_); }
  void Run(const KernelArgs& args) override {
    size_t levels = static_cast<size_t>(problem_.params.levels);
    kernels::RoiMaps maps{};
    for (size_t l = 0; l < levels; ++l) maps.map[l] = args.in[l];
    kernels::RoiAlign(problem_, maps, args.In<kernels::Box>(levels), args.In<int32_t>(levels + 1),
                      args.out[0], args.workspace, stream_);
    CheckLaunch("RoiAlign");
  }

 private:
  cudaStream_t stream_;
  kernels::RoiAlignProblem problem_;
};

class RoiAlignGradKernel final : public Kernel {
 public:
  RoiAlignGradKernel(cudaStream_t stream, const Graph& g, const Op& op)
      : stream_(stream), problem_(AlignProblem(g, op, g.tensor(op.inputs[0]).dtype)) {}
  size_t WorkspaceBytes() const override { return kernels::RoiAlignScratch(problem_); }
  void Run(const KernelArgs& args) override {
    kernels::RoiMapGrads grads{};
    for (size_t l = 0; l < static_cast<size_t>(problem_.params.levels); ++l) {
      grads.map[l] = args.out[l];
    }
    kernels::RoiAlignGrad(problem_, args.in[0], args.In<kernels::Box>(1), args.In<int32_t>(2),
                          grads, args.workspace, stream_);
    CheckLaunch("RoiAlignGrad");
  }

 private:
  cudaStream_t stream_;
  kernels::RoiAlignProblem problem_;
};

class RoiLossKernel final : public Kernel {
 public:
  RoiLossKernel(cudaStream_t stream, const Graph& g, const Op& op) : stream_(stream) {
    const auto& attrs = std::get<RoiLossAttrs>(op.attrs);
    RoiHeadShapes s = RoiLossShapes(g, op);
    problem_ = {s.images,
                s.rois,
                s.columns,
                attrs.background,
                attrs.beta,
                attrs.class_agnostic,
                ElementTypeOf(g.tensor(op.inputs[0]).dtype)};
  }
  size_t WorkspaceBytes() const override { return kernels::RoiLossScratch(problem_); }
  void Run(const KernelArgs& args) override {
    kernels::RoiLossInputs in{args.in[0],          args.in[1],
                              args.In<int32_t>(2), args.In<kernels::BoxDeltas>(3),
                              args.In<int32_t>(4), LossScale(args, 5)};
    kernels::RoiLoss(problem_, in, args.Out<float>(0), args.out[1], args.out[2], args.workspace,
                     stream_);
    CheckLaunch("RoiLoss");
  }

 private:
  cudaStream_t stream_;
  kernels::RoiLossProblem problem_;
};

class DetectionsKernel final : public Kernel {
 public:
  DetectionsKernel(cudaStream_t stream, const Graph& g, const Op& op) : stream_(stream) {
    const auto& attrs = std::get<DetectionAttrs>(op.attrs);
    RoiHeadShapes s = DetectionShapes(g, op);
    problem_ = {ToParams(attrs.coder),
                s.images,
                s.rois,
                attrs.num_classes,
                attrs.background,
                attrs.max_detections,
                attrs.min_score,
                attrs.min_size,
                attrs.nms_iou,
                attrs.class_agnostic,
                ElementTypeOf(g.tensor(op.inputs[0]).dtype)};
  }
  size_t WorkspaceBytes() const override { return kernels::DetectionsScratch(problem_); }
  void Run(const KernelArgs& args) override {
    kernels::DetectionsInputs in{args.in[0], args.in[1], args.In<kernels::Box>(2),
                                 args.In<int32_t>(3), args.In<int32_t>(4)};
    kernels::Detections(problem_, in, args.Out<kernels::Box>(0), args.Out<float>(1),
                        args.Out<int32_t>(2), args.Out<int32_t>(3), args.workspace, stream_);
    CheckLaunch("Detections");
  }

 private:
  cudaStream_t stream_;
  kernels::DetectionsProblem problem_;
};

}  // namespace

std::unique_ptr<Kernel> MakeRoiTargets(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<RoiTargetsKernel>(context.stream, g, op);
}

std::unique_ptr<Kernel> MakeRoiAlign(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<RoiAlignKernel>(context.stream, g, op);
}

std::unique_ptr<Kernel> MakeRoiAlignGrad(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<RoiAlignGradKernel>(context.stream, g, op);
}

std::unique_ptr<Kernel> MakeRoiLoss(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<RoiLossKernel>(context.stream, g, op);
}

std::unique_ptr<Kernel> MakeDetections(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<DetectionsKernel>(context.stream, g, op);
}

}  // namespace xp::graph::cuda
