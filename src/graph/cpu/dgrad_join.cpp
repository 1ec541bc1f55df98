// A convolution's data gradient joined with what else flows into its input: on the CPU one after
// the other. The reference for the CUDA kernel.
#include <memory>
#include <vector>

#include "exp/graph/memory_plan.h"
#include "src/graph/cpu/kernel.h"
#include "src/graph/cpu/shapes.h"
#include "src/graph/step_edit.h"

namespace xp::graph::cpu {
namespace {

class DgradJoin : public Kernel {
 public:
  DgradJoin(const Context& context, const Graph& g, const Op& op) {
    Graph inner(g.shared_layout(), DType::kF32);
    const auto copy = [&](const std::vector<TensorId>& ids) {
      std::vector<TensorId> copies;
      copies.reserve(ids.size());
      for (TensorId id : ids) {
        copies.push_back(id == kNoTensor ? id : inner.AddTensor(g.tensor(id)));
      }
      return copies;
    };
    const std::vector<TensorId> in = copy(op.inputs), out = copy(op.outputs);
    const TensorId direct = inner.AddTemp("direct", OutputOf(g, op, 0).shape, DType::kF32);
    const size_t bytes = inner.tensor(direct).bytes();
    direct_bytes_ = (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
    dgrad_ = MakeConv2dDgrad(context, inner,
                             {OpType::kConv2dDgrad, {in[1], in[2]}, {direct}, op.attrs, op.name});
    std::vector<TensorId> results(kSumsBranchResult[1] + 3, kNoTensor);
    results[0] = out[0];
    for (size_t i = 0; i < 2; ++i) results[kSumsBranchResult[i]] = Get(out, 1 + i);
    sums_ = MakeNormGradSums(context, inner,
                             {OpType::kNormGradSums,
                              {in[0], direct, in[kJoinMore], Get(in, kJoinMore + 1)},
                              std::move(results),
                              NoAttrs{},
                              op.name});
  }
  size_t WorkspaceBytes() const override {
    return direct_bytes_ + std::max(dgrad_->WorkspaceBytes(), sums_->WorkspaceBytes());
  }

  void Run(const KernelArgs& args) override {
    char* direct = static_cast<char*>(args.workspace);
    char* rest = direct + direct_bytes_;
    const void* factors[] = {args.in[1], args.in[2]};
    void* product[] = {direct};
    dgrad_->Run({factors, product, rest});
    const void* in[] = {args.in[0], direct, args.in[3], args.in.size() > 4 ? args.in[4] : nullptr};
    std::vector<void*> out(kSumsBranchResult[1] + 3, nullptr);
    out[0] = args.out[0];
    for (size_t i = 0; i < 2 && 1 + i < args.out.size(); ++i) {
      out[kSumsBranchResult[i]] = args.out[1 + i];
    }
    sums_->Run({in, out, rest});
  }

 private:
  size_t direct_bytes_ = 0;
  std::unique_ptr<Kernel> dgrad_, sums_;
};

}  // namespace

std::unique_ptr<Kernel> MakeDgradJoin(const Context& context, const Graph& g, const Op& op) {
  return std::make_unique<DgradJoin>(context, g, op);
}

}  // namespace xp::graph::cpu
