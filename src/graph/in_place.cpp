// Which outputs may take an input's place on a GPU. Each kernel named here has a thread read what
// it needs of an element (or of its few neighbours that it writes too) before it writes there, and
// no other thread reads it afterwards. Sums over a map are another kernel, which is done by then.
#include "exp/graph/memory_plan.h"
#include "src/graph/step_edit.h"

namespace xp::graph {
namespace {

std::vector<InPlace> PairsOf(const Graph& g, const Op& op) {
  std::vector<InPlace> pairs;
  switch (op.type) {
    case OpType::kAdd:
      for (size_t i = 0; i < op.inputs.size(); ++i) pairs.push_back({0, i});
      break;
    case OpType::kRelu:
    case OpType::kSigmoid:
      pairs = {{0, 0}};
      break;
    case OpType::kReluGrad:
    case OpType::kSigmoidGrad:
      pairs = {{0, 0}, {0, 1}};
      break;
    case OpType::kBatchNormGrad:  // dresidual over dy, dx over x
      pairs = {{3, 0}, {0, 1}, {0, 0}};
      break;
    case OpType::kNormGradApply:  // dx over x, else over g
    case OpType::kSqueezeApply:
      pairs = {{0, 1}, {0, 0}};
      break;
    case OpType::kNormGradSums:  // g over one of what it is the sum of, if that has its shape
    case OpType::kSqueezeSums:
      for (size_t i = kSumsDy; i < kSumsDy + kSumsMostDys && Has(op.inputs, i); ++i) {
        const bool whole = g.tensor(op.inputs[i]).shape == g.tensor(op.inputs[kSumsDy]).shape;
        if (whole) pairs.push_back({0, i});
      }
      break;
    default:
      break;
  }
  return pairs;
}

}  // namespace

std::vector<std::vector<InPlace>> GpuInPlace(const Graph& g) {
  std::vector<std::vector<InPlace>> all;
  all.reserve(g.ops().size());
  for (const Op& op : g.ops()) all.push_back(PairsOf(g, op));
  return all;
}

}  // namespace xp::graph
