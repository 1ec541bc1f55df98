// The gradient that flows into a residual block's output: the data gradient of the next block's
// first convolution (1x1), what flows through its shortcut, the ReLU's mask and the sums, at once.
#include <algorithm>
#include <array>

#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

// What the kernel does: 1x1 of stride 1, columns by 128, depth by 32 from 64. The deeper ones are
// left alone: their products take longer than memory does, and cuDNN makes them faster.
constexpr int64_t kLeastDepth = 64, kMostDepth = 128;

bool Fits(const Graph& g, const Op& dgrad, const JoinedDgrads& which) {
  const auto& attrs = std::get<ConvAttrs>(dgrad.attrs);
  const Tensor& w = g.tensor(dgrad.inputs[1]);
  const bool type =
      (which.bf16 && w.dtype == DType::kBF16) || (which.f32 && w.dtype == DType::kF32);
  return type && w.shape[1] == 1 && w.shape[2] == 1 && attrs.groups == 1 &&
         attrs.stride == std::array{1, 1} && attrs.pad == std::array{0, 0} &&
         w.shape[3] % 128 == 0 && w.shape[0] % 32 == 0 && w.shape[0] >= kLeastDepth &&
         w.shape[0] <= kMostDepth;
}

}  // namespace

void JoinDgrads(Graph& g, const JoinedDgrads& which) {
  StepEdit edit(g);
  for (size_t i = 0; i < g.ops().size(); ++i) {
    const Op& op = g.ops()[i];
    if (op.type != OpType::kNormGradSums || Has(op.inputs, kSumsBranch[0]) ||
        Has(op.inputs, kSumsBranch[1]) || !Has(op.inputs, kSumsDy + 1)) {
      continue;
    }
    std::vector<TensorId> more;
    size_t chosen = kNoOp;
    for (size_t k = 0; k < kSumsMostDys && Has(op.inputs, kSumsDy + k); ++k) {
      const TensorId dy = op.inputs[kSumsDy + k];
      const size_t dgrad = edit.MadeBy(dy, OpType::kConv2dDgrad);
      if (chosen == kNoOp && dgrad != kNoOp && (which.all || Fits(g, edit.op(dgrad), which)) &&
          edit.OnlyReader(dy, OpType::kNormGradSums) == i) {
        chosen = dgrad;
      } else {
        more.push_back(dy);
      }
    }
    if (chosen == kNoOp) continue;
    const Op dgrad = edit.op(chosen);
    more.resize(2, kNoTensor);
    edit.Remove(chosen);
    edit.Replace(i, {{OpType::kDgradJoin,
                      {Get(op.inputs, 0), dgrad.inputs[0], dgrad.inputs[1], more[0], more[1]},
                      {op.outputs[0], Get(op.outputs, kSumsBranchResult[0]),
                       Get(op.outputs, kSumsBranchResult[1])},
                      dgrad.attrs,
                      op.name}});
  }
  edit.Apply();
}

}  // namespace xp::graph
