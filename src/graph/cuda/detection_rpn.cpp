#include "kernels/rpn_loss.h"
#include "kernels/rpn_proposals.h"
#include "kernels/rpn_targets.h"
#include "src/graph/cuda/detection_kernels.h"
#include "src/graph/cuda/device_array.h"
#include "src/graph/cuda/element_type.h"
#include "src/graph/detection_shapes.h"

namespace xp::graph::cuda {
namespace {

// Anchors whose base anchors are in device memory.
class DeviceAnchors {
 public:
  DeviceAnchors(const Op& op, const std::vector<AnchorLevel>& levels)
      : anchors_(MakeAnchors(op, levels)), bases_(anchors_.bases) {
    anchors_.grid.base = bases_.data();
  }
  const kernels::AnchorGrid& grid() const { return anchors_.grid; }

 private:
  Anchors anchors_;
  DeviceArray<kernels::Box> bases_;
};

kernels::RpnMaps Maps(const KernelArgs& args, int levels) {
  kernels::RpnMaps maps{};
  for (int l = 0; l < levels; ++l) {
    maps.cls[l] = args.in[static_cast<size_t>(l)];
    maps.box[l] = args.in[static_cast<size_t>(levels + l)];
  }
  return maps;
}

class RpnTargetsKernel final : public Kernel {
 public:
  RpnTargetsKernel(cudaStream_t stream, const Graph& g, const Op& op)
      : stream_(stream), anchors_(op, std::get<RpnTargetAttrs>(op.attrs).levels) {
    const auto& attrs = std::get<RpnTargetAttrs>(op.attrs);
    TargetShapes s = RpnTargetShapes(g, op);
    problem_ = {anchors_.grid(),
                ToParams(attrs.matcher),
                ToParams(attrs.coder),
                s.images,
                s.boxes,
                s.samples,
                MaxPositives(s.samples, attrs.positive_fraction)};
  }
  size_t WorkspaceBytes() const override { return kernels::RpnTargetsScratch(problem_); }
  void Run(const KernelArgs& args) override {
    kernels::RpnTargets(problem_, args.In<kernels::Box>(0), args.In<int32_t>(1),
                        args.In<uint32_t>(2), args.Out<int32_t>(0), args.Out<kernels::BoxDeltas>(1),
                        args.Out<int32_t>(2), args.workspace, stream_);
    CheckLaunch("RpnTargets");
  }

 private:
  cudaStream_t stream_;
  DeviceAnchors anchors_;
  kernels::RpnTargetsProblem problem_;
};

class RpnLossKernel final : public Kernel {
 public:
  RpnLossKernel(cudaStream_t stream, const Graph& g, const Op& op)
      : stream_(stream), anchors_(op, std::get<RpnLossAttrs>(op.attrs).levels) {
    const auto& attrs = std::get<RpnLossAttrs>(op.attrs);
    int images = CheckRpnMaps(g, op, attrs.levels);
    const Shape& sampled = g.tensor(op.inputs[2 * attrs.levels.size()]).shape;
    problem_ = {anchors_.grid(), images, static_cast<int>(sampled[1]), attrs.beta,
                ElementTypeOf(g.tensor(op.inputs[0]).dtype)};
  }
  void Run(const KernelArgs& args) override {
    int levels = problem_.grid.levels;
    size_t next = 2 * static_cast<size_t>(levels);
    kernels::RpnMapGrads grads{};
    for (int l = 0; l < levels; ++l) {
      grads.cls[l] = args.out[static_cast<size_t>(1 + l)];
      grads.box[l] = args.out[static_cast<size_t>(1 + levels + l)];
    }
    kernels::RpnLoss(problem_, Maps(args, levels), args.In<int32_t>(next),
                     args.In<kernels::BoxDeltas>(next + 1), args.In<int32_t>(next + 2),
                     LossScale(args, next + 3), args.Out<float>(0), grads, stream_);
    CheckLaunch("RpnLoss");
  }

 private:
  cudaStream_t stream_;
  DeviceAnchors anchors_;
  kernels::RpnLossProblem problem_;
};

class RpnProposalsKernel final : public Kernel {
 public:
  RpnProposalsKernel(cudaStream_t stream, const Graph& g, const Op& op)
      : stream_(stream), anchors_(op, std::get<RpnProposalAttrs>(op.attrs).levels) {
    const auto& attrs = std::get<RpnProposalAttrs>(op.attrs);
    int images = CheckRpnMaps(g, op, attrs.levels);
    int capacity = static_cast<int>(g.tensor(op.outputs[0]).shape[1]);
    problem_ = {anchors_.grid(), ToParams(attrs.coder),
                images,          attrs.pre_nms,
                attrs.post_nms,  capacity,
                attrs.nms_iou,   attrs.min_size,
                attrs.min_score, ElementTypeOf(g.tensor(op.inputs[0]).dtype)};
  }
  size_t WorkspaceBytes() const override { return kernels::RpnProposalsScratch(problem_); }
  void Run(const KernelArgs& args) override {
    int levels = problem_.grid.levels;
    kernels::RpnProposals(problem_, Maps(args, levels),
                          args.In<int32_t>(2 * static_cast<size_t>(levels)),
                          args.Out<kernels::Box>(0), args.Out<float>(1), args.Out<int32_t>(2),
                          args.workspace, stream_);
    CheckLaunch("RpnProposals");
  }

 private:
  cudaStream_t stream_;
  DeviceAnchors anchors_;
  kernels::RpnProposalsProblem problem_;
};

}  // namespace

std::unique_ptr<Kernel> MakeRpnTargets(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<RpnTargetsKernel>(context.stream, g, op);
}

std::unique_ptr<Kernel> MakeRpnLoss(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<RpnLossKernel>(context.stream, g, op);
}

std::unique_ptr<Kernel> MakeRpnProposals(Context& context, const Graph& g, const Op& op) {
  return std::make_unique<RpnProposalsKernel>(context.stream, g, op);
}

}  // namespace xp::graph::cuda
