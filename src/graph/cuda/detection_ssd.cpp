#include "kernels/ssd.h"
#include "src/graph/cuda/detection_kernels.h"
#include "src/graph/cuda/device_array.h"
#include "src/graph/cuda/element_type.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph::cuda {
namespace {

std::vector<kernels::Box> DefaultBoxes(const SsdAttrs& attrs) {
  std::vector<kernels::Box> boxes;
  for (size_t i = 0; i + 3 < attrs.boxes.size(); i += 4) {
    const float* b = &attrs.boxes[i];
    boxes.push_back({b[0], b[1], b[2], b[3]});
  }
  return boxes;
}

// What the three operations share: the problem, with the default boxes in device memory.
class SsdKernel : public Kernel {
 public:
  SsdKernel(cudaStream_t stream, const Graph& g, const Op& op, kernels::ElementType type)
      : stream_(stream), boxes_(DefaultBoxes(std::get<SsdAttrs>(op.attrs))) {
    const auto& attrs = std::get<SsdAttrs>(op.attrs);
    SsdShapes s = MakeSsdShapes(g, op);
    problem_ = {s.grid,
                boxes_.data(),
                ToParams(attrs.coder),
                ToParams(attrs.matcher),
                s.images,
                s.gt_boxes,
                s.columns,
                attrs.negative_ratio,
                attrs.beta,
                attrs.min_score,
                attrs.nms_iou,
                attrs.candidates,
                attrs.max_detections,
                type};
  }

 protected:
  kernels::RpnMaps Maps(const KernelArgs& args) const {
    kernels::RpnMaps maps{};
    int levels = problem_.grid.levels;
    for (int l = 0; l < levels; ++l) {
      maps.cls[l] = args.in[static_cast<size_t>(l)];
      maps.box[l] = args.in[static_cast<size_t>(levels + l)];
    }
    return maps;
  }

  cudaStream_t stream_;
  DeviceArray<kernels::Box> boxes_;
  kernels::SsdProblem problem_;
};

class SsdTargetsKernel final : public SsdKernel {
 public:
  using SsdKernel::SsdKernel;
  size_t WorkspaceBytes() const override { return kernels::SsdTargetsScratch(problem_); }
  void Run(const KernelArgs& args) override {
    kernels::SsdTargets(problem_, args.In<kernels::Box>(0), args.In<int32_t>(2),
                        args.Out<int32_t>(0), args.Out<int32_t>(1), args.workspace, stream_);
    CheckLaunch("SsdTargets");
  }
};

class SsdLossKernel final : public SsdKernel {
 public:
  using SsdKernel::SsdKernel;
  size_t WorkspaceBytes() const override { return kernels::SsdLossScratch(problem_); }
  void Run(const KernelArgs& args) override {
    int levels = problem_.grid.levels;
    size_t next = 2 * static_cast<size_t>(levels);
    kernels::RpnMapGrads grads{};
    for (int l = 0; l < levels; ++l) {
      grads.cls[l] = args.out[static_cast<size_t>(1 + l)];
      grads.box[l] = args.out[static_cast<size_t>(1 + levels + l)];
    }
    kernels::SsdLossInputs in{Maps(args),
                              args.In<int32_t>(next),
                              args.In<int32_t>(next + 1),
                              args.In<kernels::Box>(next + 2),
                              args.In<int32_t>(next + 3),
                              LossScale(args, next + 4)};
    kernels::SsdLoss(problem_, in, args.Out<float>(0), grads, args.workspace, stream_);
    CheckLaunch("SsdLoss");
  }
};

class SsdDetectionsKernel final : public SsdKernel {
 public:
  using SsdKernel::SsdKernel;
  size_t WorkspaceBytes() const override { return kernels::SsdDetectionsScratch(problem_); }
  void Run(const KernelArgs& args) override {
    kernels::SsdDetections(problem_, Maps(args),
                           args.In<int32_t>(2 * static_cast<size_t>(problem_.grid.levels)),
                           args.Out<kernels::Box>(0), args.Out<float>(1), args.Out<int32_t>(2),
                           args.Out<int32_t>(3), args.workspace, stream_);
    CheckLaunch("SsdDetections");
  }
};

}  // namespace

std::unique_ptr<Kernel> MakeSsdTargets(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<SsdTargetsKernel>(context.stream, g, op, kernels::ElementType::kF32);
}

std::unique_ptr<Kernel> MakeSsdLoss(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<SsdLossKernel>(context.stream, g, op,
                                         ElementTypeOf(g.tensor(op.inputs[0]).dtype));
}

std::unique_ptr<Kernel> MakeSsdDetections(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<SsdDetectionsKernel>(context.stream, g, op,
                                               ElementTypeOf(g.tensor(op.inputs[0]).dtype));
}

}  // namespace xp::graph::cuda
