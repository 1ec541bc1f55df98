// The data gradient of a 1x1 convolution of stride 2 (the shortcut of a block that halves the map)
// is 0 for three pixels of four. Where it is added to others, those zeros aren't made.
#include <algorithm>
#include <array>
#include <cstdint>

#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

bool Halves(const Graph& g, const Op& dgrad) {
  const auto& attrs = std::get<ConvAttrs>(dgrad.attrs);
  const Shape &w = g.tensor(dgrad.inputs[1]).shape, &dx = g.tensor(dgrad.outputs[0]).shape;
  return w[1] == 1 && w[2] == 1 && attrs.groups == 1 && attrs.stride == std::array{2, 2} &&
         attrs.pad == std::array{0, 0} &&
         dx[0] * dx[1] * dx[2] <= INT32_MAX;  // kernels/even_pixels.h
}

// Has the op write its result's even pixels only; returns them.
TensorId KeepEvenPixels(StepEdit& edit, size_t index) {
  Op dgrad = edit.op(index);
  Graph& g = edit.graph();
  const Tensor dx = g.tensor(dgrad.outputs[0]);
  Shape even = g.tensor(dgrad.inputs[0]).shape;
  even.back() = dx.shape.back();
  std::get<ConvAttrs>(dgrad.attrs).stride = {1, 1};
  dgrad.outputs[0] = g.AddTemp(dx.name + ".even", even, dx.dtype);
  const TensorId id = dgrad.outputs[0];
  edit.Replace(index, {std::move(dgrad)});
  return id;
}

}  // namespace

void HalveDgrads(Graph& g) {
  StepEdit edit(g);
  for (size_t i = 0; i < g.ops().size(); ++i) {
    const Op& op = g.ops()[i];
    const bool sums = op.type == OpType::kNormGradSums;
    if (!sums && op.type != OpType::kDgradJoin) continue;
    const size_t first = sums ? kSumsDy : kJoinMore, most = sums ? kSumsMostDys : kJoinMostMore;
    std::vector<TensorId> whole;
    size_t strided = kNoOp;
    for (size_t k = first; k < first + most && Has(op.inputs, k); ++k) {
      const TensorId dy = op.inputs[k];
      const size_t dgrad = edit.MadeBy(dy, OpType::kConv2dDgrad);
      if (strided == kNoOp && dgrad != kNoOp && edit.OnlyReader(dy, op.type) == i &&
          Halves(g, edit.op(dgrad))) {
        strided = dgrad;
      } else {
        whole.push_back(dy);
      }
    }
    // kNormGradSums takes the map's size from the first.
    if (strided == kNoOp || (sums && whole.empty())) continue;
    Op by = op;
    whole.push_back(KeepEvenPixels(edit, strided));
    std::copy(whole.begin(), whole.end(), by.inputs.begin() + static_cast<int64_t>(first));
    edit.Replace(i, {std::move(by)});
  }
  edit.Apply();
}

}  // namespace xp::graph
