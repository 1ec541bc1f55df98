// Batch norm, ReLU and max pool at once: on the CPU one after the other, with the map between them
// in the workspace. The reference for the CUDA kernels.
#include <memory>
#include <vector>

#include "exp/graph/memory_plan.h"
#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/parallel.h"
#include "src/graph/cpu/shapes.h"
#include "src/graph/step_edit.h"

namespace xp::graph::cpu {
namespace {

constexpr uint8_t kNoTap = 255;

// A graph of the op's own tensors (fp32 here) and the map between, for the kernels inside.
struct Inner {
  Graph graph;
  std::vector<TensorId> in, out;
  TensorId between = kNoTensor;

  Inner(const Graph& g, const Op& op, const Tensor& map) : graph(g.shared_layout(), DType::kF32) {
    for (TensorId id : op.inputs)
      in.push_back(id == kNoTensor ? id : graph.AddTensor(g.tensor(id)));
    for (TensorId id : op.outputs) {
      out.push_back(id == kNoTensor ? id : graph.AddTensor(g.tensor(id)));
    }
    between = graph.AddTemp("between", map.shape, DType::kF32);
  }
};

size_t Aligned(size_t n) {
  return (n + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

class NormPool : public Kernel {
 public:
  NormPool(const Context& context, const Graph& g, const Op& op)
      : threads_(context.threads), outputs_(OutputOf(g, op, 0).elements()) {
    const Inner inner(g, op, InputOf(g, op, 0));
    map_bytes_ = Aligned(inner.graph.tensor(inner.between).bytes());
    NormAttrs relu;
    relu.relu = true;
    norm_ = MakeNormJoin(context, inner.graph,
                         {OpType::kNormJoin, inner.in, {inner.between, kNoTensor}, relu, op.name});
    pool_ = MakeMaxPool(context, inner.graph,
                        {OpType::kMaxPool, {inner.between}, inner.out, op.attrs, op.name});
  }
  size_t WorkspaceBytes() const override { return map_bytes_ + norm_->WorkspaceBytes(); }

  void Run(const KernelArgs& args) override {
    void* map = args.workspace;
    void* between[] = {map, nullptr};
    norm_->Run({args.in, between, static_cast<char*>(args.workspace) + map_bytes_});
    const void* pooled[] = {map};
    pool_->Run({pooled, args.out, nullptr});
    const auto* y = args.Out<float>(0);
    auto* argmax = args.Out<uint8_t>(1);
    ParallelRanges(threads_, outputs_, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) argmax[i] = y[i] > 0 ? argmax[i] : kNoTap;
    });
  }

 private:
  int threads_;
  int64_t outputs_;
  size_t map_bytes_ = 0;
  std::unique_ptr<Kernel> norm_, pool_;
};

class NormPoolGrad : public Kernel {
 public:
  NormPoolGrad(const Context& context, const Graph& g, const Op& op)
      : sums_(op.type == OpType::kNormPoolSums) {
    const Inner inner(g, op, InputOf(g, op, 2));
    map_bytes_ = Aligned(inner.graph.tensor(inner.between).bytes());
    pool_ = MakeMaxPoolGrad(
        context, inner.graph,
        {OpType::kMaxPoolGrad, {inner.in[0], inner.in[1]}, {inner.between}, op.attrs, op.name});
    if (sums_) {
      std::vector<TensorId> in(kSumsBranch[0], kNoTensor), out{inner.between};
      in[kSumsDy] = inner.between;
      in.insert(in.end(), inner.in.begin() + 2, inner.in.end());
      out.insert(out.end(), inner.out.begin(), inner.out.end());
      norm_ = MakeNormGradSums(context, inner.graph,
                               {OpType::kNormGradSums, in, out, NoAttrs{}, op.name});
    } else {
      norm_ = MakeNormGradApply(context, inner.graph,
                                {OpType::kNormGradApply,
                                 {inner.between, inner.in[2], inner.in[3]},
                                 {inner.out[0]},
                                 NoAttrs{},
                                 op.name});
    }
  }
  // The masked sum that kNormGradSums writes has no reader: a second map.
  size_t WorkspaceBytes() const override { return 2 * map_bytes_ + norm_->WorkspaceBytes(); }

  void Run(const KernelArgs& args) override {
    char* map = static_cast<char*>(args.workspace);
    void* between[] = {map};
    pool_->Run({args.in, between, nullptr});
    char* rest = map + 2 * map_bytes_;
    if (sums_) {
      std::vector<const void*> in(kSumsBranch[0], nullptr);
      in[kSumsDy] = map;
      in.insert(in.end(), args.in.begin() + 2, args.in.end());
      std::vector<void*> out{map + map_bytes_};
      out.insert(out.end(), args.out.begin(), args.out.end());
      norm_->Run({in, out, rest});
    } else {
      const void* in[] = {map, args.in[2], args.in[3]};
      norm_->Run({in, args.out, rest});
    }
  }

 private:
  bool sums_;
  size_t map_bytes_ = 0;
  std::unique_ptr<Kernel> pool_, norm_;
};

}  // namespace

std::unique_ptr<Kernel> MakeNormPool(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<NormPool>(context, g, op);
}
std::unique_ptr<Kernel> MakeNormPoolGrad(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<NormPoolGrad>(context, g, op);
}

}  // namespace xp::graph::cpu
